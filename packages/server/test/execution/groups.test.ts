import { setTimeout as sleep } from 'node:timers/promises'

import type { GroupGraderContext } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { registerSamples, request, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { countAlive } from '../../../../test/kit/index.ts'
import { endOf, GroupRuns, groupGrader, rankMembers } from './groups.ts'

/** A gate that is opened from outside. */
function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: resolve }
}

function fails(): never {
  throw new Error('the agent broke')
}

/** The grader's view in plain data. */
function viewOf(ctx: GroupGraderContext | undefined): unknown {
  return (
    ctx && {
      members: ctx.members.map(({ attempt, rolloutId }) => [attempt, rolloutId]),
      failed: ctx.failed,
      missing: ctx.missing,
      complete: ctx.complete,
    }
  )
}

describe('a whole group', () => {
  it('is graded once, with its members in the order of their attempts', async () => {
    const runs = new GroupRuns()

    const ends = await Promise.all([3, 1, 2].map((attempt) => runs.run('g', attempt, 3)))

    expect(ends.map(endOf)).toStrictEqual([1, 1 / 3, 2 / 3])
    expect(runs.seen).toHaveLength(1)
    expect(runs.seen[0]).toMatchObject({ group: { id: 'g', size: 3 }, label: '4', metadata: null })
    expect(viewOf(runs.seen[0])).toStrictEqual({
      members: [
        [1, 'g-1'],
        [2, 'g-2'],
        [3, 'g-3'],
      ],
      failed: [],
      missing: [],
      complete: true,
    })
  })

  it('has no reward where the grader requires a label and the row has none', async () => {
    const judge = (ctx: GroupGraderContext): void => {
      for (const member of ctx.members) member.setReward(Number(ctx.requireLabel()))
    }
    const ended = async (label: string | null): Promise<unknown[]> => {
      const runs = new GroupRuns({}, { judge })
      const row = { label, metadata: { level: 2 } }
      const ends = await Promise.all([1, 2].map((attempt) => runs.run('g', attempt, 2, row)))
      return ends.map((end) => end.grading?.failure?.category ?? endOf(end))
    }
    expect(await ended('4')).toEqual([4, 4])
    expect(await ended(null)).toEqual(['validation_error', 'validation_error'])
  })

  it('gets rewards that depend on a comparison of its members', async () => {
    const runs = new GroupRuns(
      {},
      {
        judge: ({ members }) => {
          const lengths = members.map(({ sample }) => JSON.stringify(sample.messages).length)
          const mean = lengths.reduce((sum, length) => sum + length) / lengths.length
          for (const [index, member] of members.entries()) {
            member.setReward(mean - (lengths[index] ?? 0))
          }
        },
      },
    )

    const ends = await Promise.all([
      runs.run('g', 1, 2, { rolloutId: 'short' }),
      runs.run('g', 2, 2, { rolloutId: 'longer by 6' }),
    ])

    expect(ends.map(endOf)).toStrictEqual([3, -3])
  })

  it('holds no workflow slot while members wait', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('answer')),
      grader: groupGrader(rankMembers),
      maxConcurrent: 1,
    })

    const ends = await Promise.all(
      [1, 2, 3].map((attempt) =>
        run(backend, { rolloutId: `r${attempt}`, group: { id: 'g', attempt, size: 3 } }),
      ),
    )

    expect(ends.map(endOf)).toStrictEqual([1 / 3, 2 / 3, 1])
  })

  it('has the status grading while it is gathered', async () => {
    const { opened, open } = gate()
    const runs = new GroupRuns({}, { acts: { 'g-2': () => opened } })

    const first = runs.run('g', 1, 2)
    const second = runs.run('g', 2, 2)
    await expect.poll(() => runs.backend.status('g-1').status).toBe('grading')
    expect(runs.backend.load()).toMatchObject({ running: 1, queued: 0 })
    open()

    expect([endOf(await first), endOf(await second)]).toStrictEqual([0.5, 1])
    expect(runs.backend.status('g-1')).toMatchObject({ status: 'success', reward: 0.5 })
  })

  it('of 500 is separate from another group whose members arrive in between', async () => {
    const runs = new GroupRuns()
    const attempts = Array.from({ length: 500 }, (_, index) => index + 1)

    const ends = await Promise.all(
      attempts.flatMap((attempt) => [runs.run('a', attempt, 500), runs.run('b', attempt, 500)]),
    )

    expect(ends.map(endOf)).toStrictEqual(
      attempts.flatMap((attempt) => [attempt / 500, attempt / 500]),
    )
    expect(runs.seen.map(({ group, members }) => [group.id, members.length])).toStrictEqual([
      ['a', 500],
      ['b', 500],
    ])
  })

  it('has the metadata as the workflows saw it, and a config of its own', async () => {
    const runs = new GroupRuns({ minSize: 1 })

    await Promise.all(
      [1, 2].map((attempt) => runs.run('g', attempt, 2, { metadata: { level: 3 } })),
    )

    expect(runs.seen[0]?.metadata).toStrictEqual({ level: 3 })
    expect(runs.seen[0]?.config).toMatchObject({ name: 'groups', group: { minSize: 1 } })
  })

  it('of one attempt is graded only when the config allows it', async () => {
    expect(endOf(await new GroupRuns({ minSize: 1 }).run('g', 1, 1))).toBe(1)
    expect(endOf(await new GroupRuns().run('g', 1, 1))).toBe(
      'Group "g" has samples from 1 of its 1 attempts, but grading needs 2 (group.minSize of the grader\'s config).',
    )
  })
})

const broke: unknown = expect.stringMatching(/^thrown by run\(\) at \S+:\d+: the agent broke$/)

describe('a member without samples', () => {
  it('is listed with its failure and gets no reward, while the others are graded', async () => {
    const runs = new GroupRuns({}, { acts: { 'g-2': fails } })

    const ends = await Promise.all([1, 2, 3].map((attempt) => runs.run('g', attempt, 3)))

    expect(ends.map(endOf)).toStrictEqual([1 / 3, broke, 1])
    expect(viewOf(runs.seen[0])).toStrictEqual({
      members: [
        [1, 'g-1'],
        [3, 'g-3'],
      ],
      failed: [{ attempt: 2, rolloutId: 'g-2', category: 'agent_error', message: broke }],
      missing: [],
      complete: false,
    })
  })

  it('leaves a single other member without a reward', async () => {
    const runs = new GroupRuns({}, { acts: { 'g-1': fails } })

    const ends = await Promise.all([1, 2].map((attempt) => runs.run('g', attempt, 2)))

    expect(ends[1]?.grading?.failure?.cause).toMatchObject({ code: 'not_graded' })
    expect(endOf(ends[1] as never)).toMatch(
      /has samples from 1 of its 2 attempts, but grading needs 2/,
    )
    expect(runs.seen).toStrictEqual([])
  })

  it('is waited for when it will run again, and then joins the group', async () => {
    const runs = new GroupRuns({}, { acts: { 'first try': fails } })
    const retried = { rolloutId: 'first try', retriedAfter: ['agent_error'] as const }

    const first = runs.run('g', 1, 2)
    expect(endOf(await runs.run('g', 2, 2, retried))).toEqual(broke)
    expect(runs.seen).toStrictEqual([])
    const second = runs.run('g', 2, 2, { rolloutId: 'second try' })

    expect([endOf(await first), endOf(await second)]).toStrictEqual([0.5, 1])
    expect(viewOf(runs.seen[0])).toMatchObject({ failed: [], complete: true })
  })

  it('is replaced by another try that arrives before the group is graded', async () => {
    const { opened, open } = gate()
    const runs = new GroupRuns({}, { acts: { 'g-1': () => opened, 'first try': fails } })

    const first = runs.run('g', 1, 2)
    await runs.run('g', 2, 2, { rolloutId: 'first try' })
    const second = runs.run('g', 2, 2, { rolloutId: 'second try' })
    open()

    expect([endOf(await first), endOf(await second)]).toStrictEqual([0.5, 1])
  })

  it('counts as failed when its last try fails', async () => {
    const runs = new GroupRuns(
      { minSize: 1 },
      { acts: { 'first try': fails, 'second try': fails } },
    )

    const first = runs.run('g', 1, 2)
    await runs.run('g', 2, 2, { rolloutId: 'first try', retriedAfter: ['agent_error'] })
    await runs.run('g', 2, 2, { rolloutId: 'second try', retriedAfter: ['http_error'] })

    expect(endOf(await first)).toBe(0.5)
    expect(runs.seen[0]?.failed).toMatchObject([{ rolloutId: 'second try' }])
  })
})

it('does not wait for a member whose events nobody reads on', async () => {
  const runs = new GroupRuns()

  const others = [2, 3].map((attempt) => runs.run('g', attempt, 3))
  const member = request({ rolloutId: 'g-1', group: { id: 'g', attempt: 1, size: 3 } })
  for await (const { type } of runs.backend.execute(member)) if (type === 'workflow') break

  expect((await Promise.all(others)).map(endOf)).toStrictEqual([2 / 3, 1])
  expect(runs.seen[0]?.failed).toMatchObject([{ attempt: 1 }])
})

describe('an attempt that does not arrive', () => {
  it('is listed as missing after the wait, and is refused afterwards', async () => {
    const runs = new GroupRuns({ waitSeconds: 0.05 })

    const ends = await Promise.all([1, 3].map((attempt) => runs.run('g', attempt, 3)))

    expect(ends.map(endOf)).toStrictEqual([1 / 3, 1])
    expect(viewOf(runs.seen[0])).toMatchObject({ failed: [], missing: [2], complete: false })
    const late = await runs.run('g', 2, 3)
    const failure = {
      category: 'validation_error',
      message: 'Group "g" was already graded when this attempt arrived.',
      cause: { code: 'not_graded' },
    }
    // It is not run at all: whatever it asked would be for nothing.
    expect(late.completion?.failure).toMatchObject(failure)
  })

  it('leaves the group too small after the wait', async () => {
    const runs = new GroupRuns({ waitSeconds: 0.05 })

    expect(endOf(await runs.run('g', 1, 3))).toMatch(/has samples from 1 of its 3 attempts/)
    expect(runs.seen).toStrictEqual([])
  })

  it('does not start the wait while another attempt of the group runs', async () => {
    const { opened, open } = gate()
    const runs = new GroupRuns({ waitSeconds: 0 }, { acts: { 'g-2': () => opened } })

    const first = runs.run('g', 1, 3)
    const second = runs.run('g', 2, 3)
    await expect.poll(() => runs.backend.status('g-1').status).toBe('grading')
    // The wait of 0 seconds would have ended by now if it had started.
    const other = await Promise.all([1, 2].map((attempt) => runs.run('h', attempt, 3)))
    expect(other.map(endOf)).toStrictEqual([1 / 3, 2 / 3])
    open()

    expect([endOf(await first), endOf(await second)]).toStrictEqual([1 / 3, 2 / 3])
  })

  it('is also refused after no attempt of its group could be graded', async () => {
    const runs = new GroupRuns({}, { acts: { 'g-1': fails, 'g-2': fails } })
    await Promise.all([1, 2].map((attempt) => runs.run('g', attempt, 2)))

    expect(endOf(await runs.run('g', 1, 2, { rolloutId: 'again' }))).toBe(
      'Group "g" is closed: none of its attempts could be graded.',
    )
  })
})

describe('a group refuses', () => {
  it('a second rollout of the same attempt', async () => {
    const runs = new GroupRuns()

    const first = runs.run('g', 1, 2)
    const again = await runs.run('g', 1, 2, { rolloutId: 'again' })
    const second = await runs.run('g', 2, 2)

    expect(endOf(again)).toBe('Attempt 1 of group "g" has already arrived, as rollout "g-1".')
    expect([endOf(await first), endOf(second)]).toStrictEqual([0.5, 1])
  })

  it('an attempt with a number above its size', async () => {
    const runs = new GroupRuns({ waitSeconds: 0.05 })

    expect(endOf(await runs.run('g', 4, 3))).toBe('This is attempt 4 of group "g", which has 3.')
    expect(endOf(await runs.run('g', 0, 3))).toBe('This is attempt 0 of group "g", which has 3.')
  })

  it.each([
    ['sizes', { group: { id: 'g', attempt: 2, size: 3 } }, 'say that it has 2 and 3 attempts.'],
    ['labels', { label: '5' }, 'have different labels.'],
    ['metadata', { metadata: { level: 1 } }, 'have different metadata.'],
  ])('all members when they have different %s', async (_what, other, why) => {
    const runs = new GroupRuns()

    const first = runs.run('g', 1, 2)
    const second = runs.run('g', 2, 2, other)

    const message = `The attempts of group "g" do not belong together: rollouts "g-1" and "g-2" ${why}`
    expect([endOf(await first), endOf(await second)]).toStrictEqual([message, message])
    expect(endOf(await runs.run('g', 2, 2, { rolloutId: 'later' }))).toBe(message)
    expect(runs.seen).toStrictEqual([])
  })

  it('a rollout without a group, or without its size', async () => {
    const runs = new GroupRuns()
    const alone = { rolloutId: 'alone', group: undefined }

    const { completion, grading } = await runs.run('g', 1, 2, alone)

    expect(completion?.status).toBe('success')
    expect(grading?.failure?.cause).toMatchObject({ code: 'not_graded' })
    expect(grading?.failure?.message).toMatch(
      /^The grader judges all attempts at a row together, and this rollout was sent without a group\. Groups come from evaluations/,
    )
    const sizeless = await runs.run('g', 1, 2, { group: { id: 'g', attempt: 1 } })
    expect(endOf(sizeless)).toMatch(/was sent without the size of its group\./)
  })

  it('a rollout whose caller did not request grading', async () => {
    const runs = new GroupRuns({ waitSeconds: 0.05 })

    const ungraded = await runs.run('g', 1, 3, { grade: false })
    const ends = await Promise.all([2, 3].map((attempt) => runs.run('g', attempt, 3)))

    expect(ungraded).toMatchObject({ completion: { status: 'success' }, grading: undefined })
    expect(ends.map(endOf)).toStrictEqual([2 / 3, 1])
    expect(runs.seen[0]?.missing).toStrictEqual([1])
  })

  it('a rollout of a row with nothing to grade against', async () => {
    const runs = new GroupRuns()
    const blank = { label: null, metadata: null }

    const ends = await Promise.all([1, 2].map((attempt) => runs.run('g', attempt, 2, blank)))

    for (const end of ends) expect(endOf(end)).toMatch(/neither a label nor metadata/)
  })
})

describe('a member that is cancelled', () => {
  it('leaves its group immediately, which is graded without it', async () => {
    const { opened, open } = gate()
    const runs = new GroupRuns({}, { acts: { 'g-2': () => opened, 'g-3': () => opened } })

    const [first, ...others] = [1, 2, 3].map((attempt) => runs.run('g', attempt, 3))
    await expect.poll(() => runs.backend.status('g-1').status).toBe('grading')
    runs.backend.cancel({ ids: ['g-1'] })
    expect(endOf(await (first as NonNullable<typeof first>))).toBe('cancelled')
    expect(runs.backend.status('g-1').status).toBe('cancelled')
    open()

    expect((await Promise.all(others)).map(endOf)).toStrictEqual([2 / 3, 1])
    expect(runs.seen[0]?.failed).toMatchObject([{ attempt: 1, message: 'cancelled' }])
  })

  it('is not waited for when it was the last that ran', async () => {
    const runs = new GroupRuns({}, { acts: { 'g-3': () => new Promise(() => {}) } })

    const ends = [1, 2, 3].map((attempt) => runs.run('g', attempt, 3))
    await expect.poll(() => runs.backend.status('g-2').status).toBe('grading')
    runs.backend.cancel({ ids: ['g-3'] })

    expect((await Promise.all(ends)).map(endOf)).toStrictEqual([1 / 3, 2 / 3, 'cancelled'])
  })

  it('gets no reward while its group is graded, and the others get theirs', async () => {
    const { opened, open } = gate()
    const runs = new GroupRuns(
      {},
      {
        judge: async (ctx) => {
          await opened
          rankMembers(ctx)
        },
      },
    )

    const [first, second] = [1, 2].map((attempt) => runs.run('g', attempt, 2))
    await expect.poll(() => runs.seen.length).toBe(1)
    runs.backend.cancel({ ids: ['g-1'] })
    const cancelled = await first
    open()

    expect(cancelled?.grading?.failure?.message).toBe('cancelled')
    expect(endOf((await second) as never)).toBe(1)
    expect(cancelled?.grading?.samples.get('answer')?.reward).toBeNull()
  })

  it('aborts the grading when it was the last of its group', async () => {
    const runs = new GroupRuns({}, { judge: () => new Promise(() => {}) })

    const ends = [1, 2].map((attempt) => runs.run('g', attempt, 2))
    await expect.poll(() => runs.seen.length).toBe(1)
    runs.backend.shutdown()

    expect((await Promise.all(ends)).map(endOf)).toStrictEqual([
      'rollout server shut down',
      'rollout server shut down',
    ])
    expect(runs.seen[0]?.signal.aborted).toBe(true)
  })

  it('stops waiting immediately at a shutdown', async () => {
    const runs = new GroupRuns()

    const waiting = runs.run('g', 1, 2)
    await expect.poll(() => runs.backend.status('g-1').status).toBe('grading')
    runs.backend.shutdown()

    expect(endOf(await waiting)).toBe('rollout server shut down')
  })

  it('counts as failed while its group waits for a grader slot', async () => {
    const { opened, open } = gate()
    const runs = new GroupRuns(
      {},
      { slots: 1, judge: async (ctx) => (ctx.group.id === 'a' ? opened : rankMembers(ctx)) },
    )

    const a = [1, 2].map((attempt) => runs.run('a', attempt, 2))
    await expect.poll(() => runs.seen.length).toBe(1)
    const b = [1, 2, 3].map((attempt) => runs.run('b', attempt, 3))
    await expect.poll(() => runs.backend.status('b-3').status).toBe('grading')
    runs.backend.cancel({ ids: ['b-1'] })
    expect(endOf((await b[0]) as never)).toBe('cancelled')
    open()

    expect((await Promise.all(b)).map(endOf)).toStrictEqual(['cancelled', 2 / 3, 1])
    expect(runs.seen[1]?.failed).toMatchObject([{ attempt: 1, message: 'cancelled' }])
    for (const end of await Promise.all(a)) expect(endOf(end)).toMatch(/set no reward/)
  })
})

it('releases the memory of many graded groups', async () => {
  const runs = new GroupRuns({}, { judge: rankMembers })
  const rows: WeakRef<object>[] = []
  for (let first = 0; first < 200; first += 100) {
    await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const metadata = { row: first + index }
        rows.push(new WeakRef(metadata))
        const id = `g${first + index}`
        await Promise.all([1, 2].map((attempt) => runs.run(id, attempt, 2, { metadata })))
      }),
    )
    runs.seen.length = 0
  }

  await expect.poll(() => countAlive(rows)).toBe(0)
})

it('rewards that code of the grader sets after the end of the grading change nothing', async () => {
  const late = Promise.withResolvers<void>()
  const groups = new GroupRuns(
    {},
    {
      judge: (ctx) => {
        rankMembers(ctx)
        ctx.signal.addEventListener('abort', () => {
          for (const member of ctx.members) member.setReward(-1)
        })
        setImmediate(() => {
          for (const member of ctx.members) member.setReward(-2)
          late.resolve()
        })
      },
    },
  )
  const ended = await Promise.all([1, 2].map(async (attempt) => groups.run('g', attempt, 2)))
  await late.promise
  const rewards = ended.map(({ grading }) => grading?.samples.get('answer')?.reward)
  expect(rewards).toEqual([0.5, 1])
})

describe('grading of a group that fails', () => {
  it('fails every member with the thrown error, and sets no reward', async () => {
    const runs = new GroupRuns(
      {},
      {
        judge: ({ members }) => {
          members[0]?.setReward(1)
          throw new TypeError('the judge broke')
        },
      },
    )

    const ends = await Promise.all([1, 2].map((attempt) => runs.run('g', attempt, 2)))

    for (const { completion, grading } of ends) {
      expect(completion?.status).toBe('success')
      expect(grading).toMatchObject({
        status: 'failure',
        failure: {
          category: 'validation_error',
          message: expect.stringMatching(/^thrown by gradeGroup\(\) at \S+:\d+: the judge broke$/),
        },
      })
    }
  })

  it('fails only the member without a reward', async () => {
    const runs = new GroupRuns(
      {},
      {
        judge: ({ members }) => {
          members[0]?.setReward(0.25)
          members[2]?.removeSample('answer')
        },
      },
    )

    const ends = await Promise.all([1, 2, 3].map((attempt) => runs.run('g', attempt, 3)))

    expect(endOf(ends[0] as never)).toBe(0.25)
    expect(ends[1]?.grading?.failure?.cause).toMatchObject({ code: 'missing_reward' })
    expect(ends[2]?.grading).toMatchObject({ status: 'success', failure: null })
  })

  it("refuses invalid rewards, and samples that are not the member's", async () => {
    const runs = new GroupRuns(
      {},
      {
        judge: ({ members, group }) => {
          const [first] = members
          if (group.id === 'nan') first?.setReward(Number.NaN)
          else first?.setSampleReward('other', 1)
        },
      },
    )

    const codes = ['nan', 'unknown'].map(async (id) => {
      const ends = await Promise.all([1, 2].map((attempt) => runs.run(id, attempt, 2)))
      return ends.map(({ grading }) => grading?.failure?.cause)
    })

    const [invalid, unknown] = [{ code: 'invalid_reward' }, { code: 'unknown_sample' }]
    expect(await Promise.all(codes)).toMatchObject([
      [invalid, invalid],
      [unknown, unknown],
    ])
  })

  it('has the shortest deadline of its members, without the time of gathering', async () => {
    const runs = new GroupRuns(
      {},
      { acts: { 'g-2': () => sleep(150) }, judge: () => new Promise(() => {}) },
    )

    const ends = await Promise.all([
      runs.run('g', 1, 2, { graderTimeoutSeconds: 0.1 }),
      runs.run('g', 2, 2, { graderTimeoutSeconds: 5 }),
    ])

    expect(runs.seen).toHaveLength(1)
    for (const { grading } of ends) {
      expect(grading?.failure).toMatchObject({
        category: 'timeout',
        message: 'grader exceeded its 0.1s deadline',
      })
    }
  })
})
