import {
  Grader,
  GroupGrader,
  lastAssistantText,
  type GraderContext,
  type GroupGraderContext,
} from '@osmosis/core'
import {
  createRun,
  gradeByFunction,
  gradeByGrader,
  gradedEvents,
  openRun,
  regradeRun,
  toScorer,
  wholeGroups,
  type EndedItem,
  type GradeRollouts,
  type RegradeOptions,
  type Regrading,
  type RunReader,
} from '@osmosis/eval'
import type { RunManifest } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { madeEvent, madeManifest, temporaryFolder } from '../../../../test/kit/index.ts'
import { itemOf } from '../store/runs.ts'

async function storedRun(
  items: readonly EndedItem[],
  manifest: RunManifest = madeManifest(),
): Promise<RunReader> {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest })
  for (const item of items) await store.commit(item)
  await store.close()
  return openRun(store.location)
}

const half: GradeRollouts = async (rollouts) => rollouts.map(() => ({ reward: 0.5, error: null }))

const group = { id: '0', attempt: 1, size: 1 }

const timeoutSeconds = null

describe('regradeRun', () => {
  it('grades stored items, and lists those that cannot be graded', async () => {
    const failed = madeEvent(1, 0, { status: 'failed', reward: null, error_type: 'agent_error' })
    const run = await storedRun([
      itemOf(0, 0),
      { event: failed, trajectories: null, graded: null },
      itemOf(1, 1),
    ])
    const { grades, ...others } = await regradeRun(run, { grade: half })
    expect(grades).toEqual([
      { source_row_index: 0, run_index: 0, rollout_id: 'rollout-0-0', reward: 0.5, error: null },
      { source_row_index: 1, run_index: 1, rollout_id: 'rollout-1-1', reward: 0.5, error: null },
    ])
    expect(others).toEqual({
      failed: [expect.objectContaining({ row_index: 1, run_index: 0 })],
      missing: [],
      damaged: [],
      pending: [],
    })
  })

  it('returns the grades so far when its signal aborts', async () => {
    const run = await storedRun([itemOf(0, 0), itemOf(0, 1), itemOf(1, 0)])
    const stop = new AbortController()
    const { grades, pending } = await regradeRun(run, {
      maxInFlight: 1,
      signal: stop.signal,
      grade: async (rollouts) => {
        if (rollouts[0]?.rolloutId !== 'rollout-0-1') return half(rollouts)
        stop.abort(new Error('enough'))
        return new Promise(() => {})
      },
    })
    expect(grades).toHaveLength(1)
    expect(pending.map(({ rollout_id: id }) => id)).toEqual(['rollout-0-1', 'rollout-1-0'])
  })

  it('does not grade agent loops that failed, although their messages are stored', async () => {
    const { inputs } = madeManifest()
    const code = { ...inputs.code, kind: 'agent-loop' as const }
    const failed = { status: 'failed' as const, reward: null }
    const run = await storedRun(
      [
        itemOf(0, 0, '', { ...failed, error_type: 'agent_error' }),
        itemOf(0, 1, '', { ...failed, error_type: 'missing_reward' }),
      ],
      madeManifest({ inputs: { ...inputs, code } }),
    )
    const regrading = await regradeRun(run, { grade: half })
    expect(regrading.failed.map(({ run_index: attempt }) => attempt)).toEqual([0])
    expect(regrading.grades.map(({ run_index: attempt }) => attempt)).toEqual([1])
  })
})

describe('gradeByGrader', () => {
  it('passes the row to the grader, and fails samples without a reward as the server does', async () => {
    class Careful extends Grader {
      async grade(ctx: GraderContext): Promise<void> {
        if (ctx.label === 'label 0' && ctx.metadata?.['task'] === 'refund') ctx.setReward(0.25)
      }
    }
    const run = await storedRun([itemOf(0, 0), itemOf(1, 0)])
    const grade = gradeByGrader({
      grader: Careful,
      graderConfig: undefined,
      workflowConfig: undefined,
      timeoutSeconds,
      artifactRoot: await temporaryFolder(),
    })
    const { grades } = await regradeRun(run, { grade })
    expect(grades).toMatchObject([
      { reward: 0.25, samples: { main: 0.25 }, error: null },
      { reward: null, error: expect.stringContaining('The grader set no reward') },
    ])
  })

  it('reads no answer in a refusal that the framework has as text', async () => {
    class Polite extends Grader {
      async grade(ctx: GraderContext): Promise<void> {
        ctx.setReward(lastAssistantText(ctx.sample) === 'No.' ? 1 : 0)
      }
    }
    const { graded, ...item } = itemOf(0, 0, 'No.')
    const refused = [{ role: 'assistant', content: null, refusal: 'No.' }]
    const run = await storedRun([
      { ...item, graded: graded && { ...graded, wire: { main: { messages: refused } } } },
      itemOf(1, 0, 'No.'),
    ])
    const grade = gradeByGrader({
      grader: Polite,
      graderConfig: undefined,
      workflowConfig: undefined,
      timeoutSeconds,
      artifactRoot: await temporaryFolder(),
    })
    const scorer = toScorer('polite', ({ solutionStr }: { solutionStr: string }) =>
      solutionStr === 'No.' ? 1 : 0,
    )
    for (const by of [grade, gradeByFunction(scorer, { kind: 'workflow', timeoutSeconds })]) {
      const { grades } = await regradeRun(run, { grade: by })
      expect(grades.map(({ reward }) => reward)).toEqual([0, 1])
    }
  })
})

describe('a grader of groups', () => {
  const seen: GroupGraderContext[] = []
  class Ranks extends GroupGrader {
    async gradeGroup(ctx: GroupGraderContext): Promise<void> {
      seen.push(ctx)
      for (const member of ctx.members) member.setReward(member.attempt / ctx.group.size)
    }
  }

  async function ranked(run: RunReader, options: Partial<RegradeOptions> = {}): Promise<Regrading> {
    seen.length = 0
    const grade = gradeByGrader({
      grader: Ranks,
      graderConfig: undefined,
      workflowConfig: undefined,
      timeoutSeconds,
      artifactRoot: await temporaryFolder(),
    })
    return regradeRun(run, { grade, gradesGroups: true, ...options })
  }

  it('gets all attempts of a row, even with low concurrency', async () => {
    const run = await storedRun(
      [0, 1].flatMap((row) => [0, 1].map((n) => itemOf(row, n))),
      madeManifest({ n: 2 }),
    )
    const { grades, pending } = await ranked(run, { maxInFlight: 1 })
    expect(pending).toEqual([])
    // By row and attempt.
    expect(grades.map(({ reward }) => reward)).toEqual([0.5, 1, 0.5, 1])
    expect(new Set(seen.map((ctx) => ctx.group.id))).toEqual(new Set(['0', '1']))
    expect(seen.map(({ complete }) => complete)).toEqual([true, true])
  })

  it('sees failed attempts, skips groups that have not ended, and grades whole groups', async () => {
    const failed = { status: 'failed', reward: null, error_type: 'timeout' } as const
    const event = madeEvent(0, 1, { ...failed, error_message: 'too slow' })
    const run = await storedRun(
      [
        itemOf(0, 0),
        { event, trajectories: null, graded: null },
        itemOf(0, 2),
        itemOf(1, 0),
        itemOf(1, 1),
      ],
      madeManifest({ n: 3 }),
    )
    const [first] = run.sortedEvents
    const events = wholeGroups(run, first === undefined ? [] : [first])
    expect(events.map(({ run_index: n }) => n)).toEqual([0, 1, 2])
    const { grades, failed: unjudged } = await ranked(run, { events })
    expect(grades.map(({ reward }) => reward)).toEqual([1 / 3, 1])
    expect(unjudged.map(({ run_index: n }) => n)).toEqual([1])
    expect(seen[0]?.failed).toEqual([
      { attempt: 2, rolloutId: event.rollout_id, category: 'timeout', message: 'too slow' },
    ])

    const all = await ranked(run)
    expect(all.pending.map(({ row_index: row, run_index: n }) => [row, n])).toEqual([
      [1, 0],
      [1, 1],
    ])
  })
})

describe('gradeByFunction', () => {
  it('scores each sample in training; a sample without a score fails the grade', async () => {
    const sample = { label: null, metrics: {}, extra_fields: {} }
    const said = (content: string) => ({ ...sample, messages: [{ role: 'assistant', content }] })
    const graded = {
      label: 'right',
      metadata: { level: 2 },
      other_columns: { topic: 'sums' },
      artifacts: null,
      samples: {
        a: said('right'),
        b: said('wrong'),
        c: { ...said('none'), removed: true as const },
      },
    }
    const seen: unknown[] = []
    const scorer = toScorer('exact', (input: { solutionStr: string; groundTruth: string }) => {
      seen.push(input)
      return input.solutionStr === input.groundTruth ? 1 : 0
    })
    const grade = gradeByFunction(scorer, { kind: 'workflow', timeoutSeconds })
    const rewards = { a: 0.5, b: 0.5, c: null }
    expect(await grade([{ rolloutId: 'r', graded, rewards, group }])).toEqual([
      {
        reward: 0.5,
        samples: { a: 1, b: 0, c: null },
        error: null,
      },
    ])
    expect(seen).toMatchObject([
      { solutionStr: 'right', reward: 0.5, metadata: { topic: 'sums', level: 2 } },
      { solutionStr: 'wrong' },
    ])
    const broken = gradeByFunction(
      toScorer('nan', () => Number.NaN),
      { kind: 'workflow', timeoutSeconds },
    )
    expect(await broken([{ rolloutId: 'r', graded, rewards, group }])).toEqual([
      {
        reward: null,
        error: 'it must return a finite number, got NaN',
        error_type: 'validation_error',
      },
    ])
    const none = { ...graded, samples: { c: graded.samples.c } }
    expect(await grade([{ rolloutId: 'r', graded: none, rewards, group }])).toEqual([
      {
        reward: null,
        skipped: true,
        samples: { c: null },
        error: null,
      },
    ])
  })

  it('ends a function that takes too long', async () => {
    const scorer = toScorer('endless', () => new Promise(() => {}))
    const grade = gradeByFunction(scorer, { kind: 'workflow', timeoutSeconds: 0.02 })
    const { graded } = itemOf(0, 0)
    if (graded === null) throw new Error('expected samples')
    expect(await grade([{ rolloutId: 'r', graded, rewards: {}, group }])).toEqual([
      {
        reward: null,
        error: 'the eval function exceeded its 0.02s deadline',
        error_type: 'timeout',
      },
    ])
  })
})

describe('gradedEvents', () => {
  it('has the rewards of the grading, omits items without a grade, and preserves earlier failures', async () => {
    const failed = madeEvent(1, 1, { status: 'failed', reward: null, error_type: 'timeout' })
    const run = await storedRun([
      itemOf(0, 0, 'Done.', { scores: { polite: 1 } }),
      itemOf(0, 1),
      itemOf(1, 0),
      { event: failed, trajectories: null, graded: null },
    ])
    const grades = new Map([
      ['0.0', { ...reference(0), reward: 0, samples: { main: 0 }, error: null }],
      ['1.0', { ...reference(1), reward: null, error: 'no key', error_type: 'http_error' }],
    ])
    const events = gradedEvents(run.manifest, run.sortedEvents, grades)
    expect(events).toMatchObject([
      { row_index: 0, run_index: 0, status: 'success', reward: 0, samples: { main: 0 } },
      { row_index: 1, run_index: 0, status: 'failed', error_type: 'http_error', summary: 'no key' },
      { row_index: 1, run_index: 1, status: 'failed', error_type: 'timeout' },
    ])
    expect(events[0]).not.toHaveProperty('scores')
  })

  it('has no grade of a rollout for the one that has taken its place', async () => {
    const run = await storedRun([itemOf(0, 0), itemOf(1, 0)])
    const grade = { reward: 0, samples: { main: 0 }, error: null }
    const grades = new Map([
      ['0.0', { ...reference(0), ...grade, rollout_id: 'an earlier one' }],
      ['1.0', { ...reference(1), ...grade }],
    ])
    const events = gradedEvents(run.manifest, run.sortedEvents, grades)
    expect(events).toMatchObject([{ row_index: 1, reward: 0 }])
  })
})

function reference(row: number): {
  source_row_index: number
  run_index: number
  rollout_id: string
} {
  return { source_row_index: row, run_index: 0, rollout_id: `rollout-${row}-0` }
}
