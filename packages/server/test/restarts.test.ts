import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

import type { StatusResponseBody } from '@osmosis/core/wire'
import {
  FakeController,
  keptRollouts,
  LeaseClient,
  LeaseHandle,
  post,
  temporaryFolder,
  type CallbackAnswer,
} from '@osmosis/testing/kit'
import { expect, it, vi } from 'vitest'

import { startChild, type Child } from './start-child.ts'

const running =
  'the rollout server restarted while the rollout was running; run it again under a new id'
const grading =
  'the rollout server restarted while the rollout was being graded; run it again under a new id'

interface TerminalBody {
  rollout_id: string
  status: string
  err_message: string | null
  err_category: string | null
  samples?: Record<string, unknown>
  sample?: { reward: number | null } | null
}

/** What a controller was told of a rollout: each different body once, in the order of the first of each. */
function told(controller: FakeController, rolloutId: string): string[] {
  const ends = controller.callbacks
    .filter(({ body }) => (body as TerminalBody).rollout_id === rolloutId)
    .map(({ kind, body }) => {
      const { status, err_message, err_category, sample } = body as TerminalBody
      if (status === 'success') return `${kind} success ${sample?.reward ?? ''}`.trim()
      return `${kind} ${err_category} ${err_message}`
    })
  return [...new Set(ends)]
}

const wholeEnds = {
  success: ['completion success', 'grader success 1'],
  'killed while running': [`completion agent_error ${running}`, `grader agent_error ${running}`],
  'killed while grading': ['completion success', `grader agent_error ${grading}`],
}

const underWay = new Set(['unknown', 'queued', 'running', 'grading'])

async function statusOf({ url }: { url: string }, id: string): Promise<StatusResponseBody> {
  return (await fetch(`${url}/rollout/${id}/status`)).json() as Promise<StatusResponseBody>
}

/** The next process, which has no step behind it, and a folder that the last one has tidied. */
async function replaced(child: Child, start: () => Promise<Child>): Promise<Child> {
  child.kill('SIGTERM')
  await child.exit
  return start()
}

const never = new Promise<never>(() => undefined)

/** Never answers. */
const hold: CallbackAnswer = () => undefined

it.each<{ moment: string; hold?: string; body?: object; end: keyof typeof wholeEnds }>([
  { moment: 'its workflow asks the policy', end: 'killed while running' },
  {
    moment: 'the controller has the completion, and has not acknowledged it',
    hold: 'completion',
    end: 'killed while grading',
  },
  {
    moment: 'it is graded',
    body: { metadata: { never: true, in: 'grader' } },
    end: 'killed while grading',
  },
  {
    moment: 'the controller has the reward, and has not acknowledged it',
    hold: 'grader',
    end: 'success',
  },
])('gives a rollout one end when the server is killed while $moment', async (point) => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const rollout = { rollout_id: 'r1', ...point.body }
  const done = point.hold ?? (point.body ? 'completion' : 'policy')
  controller.hanging = done === 'policy'
  if (point.hold !== undefined) controller.answers[point.hold] = [hold]
  {
    await using first = await startChild({ outboxDir, controller })
    expect((await first.post(rollout)).status).toBe(202)
    await controller.until(() => controller.events.some((event) => event.startsWith(done)))
  }
  controller.hanging = false
  const calls = controller.policyHeaders.length
  await using second = await startChild({ outboxDir, controller })
  const again = async (): Promise<unknown> => {
    const same = await second.post(rollout)
    const other = await second.post({ ...rollout, label: 'other' })
    return [same.status, await same.json(), other.status]
  }
  expect(await again()).toStrictEqual([202, {}, 409])
  const status = await (await fetch(`${second.url}/rollout/r1/status`)).json()
  expect(status).toMatchObject(
    point.end === 'success'
      ? { status: 'success', reward: 1, err_message: null }
      : {
          status: 'failure',
          reward: null,
          err_message: point.end === 'killed while running' ? running : grading,
        },
  )
  await controller.until(() => told(controller, 'r1').length === 2)
  await vi.waitFor(async () => expect(await keptRollouts(outboxDir)).toStrictEqual([]))
  expect(await again()).toStrictEqual([202, {}, 409])
  expect(told(controller, 'r1')).toStrictEqual(wholeEnds[point.end])
  expect(controller.policyHeaders.length).toBe(calls)
  const last = controller.callbacks.at(-1)?.body as TerminalBody
  const samples = point.end === 'success' ? ['main'] : []
  expect([Object.keys(last.samples ?? {}), last.sample?.reward]).toStrictEqual([
    samples,
    point.end === 'success' ? 1 : undefined,
  ])
})

it('tells of a failed workflow what it was, also when it is killed before it has told the grader', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  controller.answers['completion'] = [hold]
  {
    await using first = await startChild({ outboxDir, controller })
    await first.post({ chat_completions_url: 'http://127.0.0.1:1' })
    await controller.bodies(1)
  }
  await using second = await startChild({ outboxDir, controller })
  await controller.until(() => controller.callbacks.length === 3)
  expect((await second.post({ chat_completions_url: 'http://127.0.0.1:1' })).status).toBe(202)
  const [completion, again, grader] = controller.callbacks.map(({ body }) => body as TerminalBody)
  expect(again).toStrictEqual(completion)
  expect(completion).toMatchObject({ status: 'failure', err_category: 'http_error' })
  expect(grader).toMatchObject({
    status: 'failure',
    err_category: 'http_error',
    err_message: completion?.err_message,
  })
})

it('accepts nothing when the disk is full, and contradicts nothing of what was running then', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  {
    await using first = await startChild({ outboxDir, controller })
    expect((await first.post({ metadata: { never: true, in: 'grader' } })).status).toBe(202)
    await controller.until(() => told(controller, 'r1').length === 1)
    await first.fillDisk()
    const refused = await first.post({ rollout_id: 'r2' })
    expect([refused.status, refused.headers.get('retry-after')]).toStrictEqual([503, '5'])
    await first.logged('rollout not accepted: ENOSPC')
    const cancel = { ids: ['r1'] }
    await post(`${first.url}/rollout/cancel`, cancel)
    await controller.until(() => told(controller, 'r1').length === 2)
  }
  await using second = await startChild({ outboxDir, controller })
  expect((await second.post({ rollout_id: 'r2' })).status).toBe(202)
  await controller.until(() => told(controller, 'r2').length === 2)
  expect(told(controller, 'r1')).toStrictEqual([
    'completion success',
    'grader agent_error cancelled',
  ])
  await vi.waitFor(async () => expect(await keptRollouts(outboxDir)).toStrictEqual([]))
})

it('gives a rollout one end, and knows it, at whichever step on the disk the server is killed', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const steps: string[] = []
  let child = await startChild({ outboxDir, controller })
  for (let count = 0; ; count += 1) {
    const rollout_id = `r${count}`
    const frozen = child.freezeDisk(count)
    const posted = child.post({ rollout_id }).catch(() => undefined)
    const over = posted.then(async () => {
      await controller.until(() => told(controller, rollout_id).length === 2)
      await vi
        .waitUntil(async () => (await keptRollouts(outboxDir)).length === 0, 2000)
        .catch(() => never)
      return 'over'
    })
    steps.push(await Promise.race([frozen, over]))
    const before = await statusOf(child, rollout_id)
    await child.end()
    if (steps.at(-1) === 'over') break
    child = await startChild({ outboxDir, controller })
    // Accepted before, or not: now it is, and leads to one end.
    expect((await child.post({ rollout_id })).status).toBe(202)
    await controller.until(() => told(controller, rollout_id).length >= 2)
    await vi.waitFor(async () => expect(await keptRollouts(outboxDir)).toStrictEqual([]))
    expect((await child.post({ rollout_id })).status).toBe(202)
    expect(Object.values(wholeEnds)).toContainEqual(told(controller, rollout_id))
    // Whoever had asked for its status was told of no other end.
    const after = await statusOf(child, rollout_id)
    expect(underWay.has(before.status) ? after : before).toStrictEqual(after)
    child = await replaced(child, async () => startChild({ outboxDir, controller }))
  }
  // A file has to be there, and its name be durable, before what is in it is.
  const accepting = ['open', 'write', 'datasync', 'sync']
  const keeping = ['write', 'datasync']
  const noting = ['write']
  const forgetting = ['open', 'write', 'datasync', 'sync', 'write']
  const whole = [...accepting, ...keeping, ...noting, ...keeping, ...noting, ...forgetting, 'over']
  expect(steps).toStrictEqual(whole)
})

it('knows how rollouts ended that were told before the restart, for as long as it knows them', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const ids = ['good', 'bad', 'cancelled']
  let before: unknown[]
  {
    await using first = await startChild({ outboxDir, controller })
    await first.post({ rollout_id: 'good' })
    await first.post({ rollout_id: 'bad', chat_completions_url: 'http://127.0.0.1:1' })
    await first.post({ rollout_id: 'cancelled', metadata: { never: true } })
    await post(`${first.url}/rollout/cancel`, { ids: ['cancelled'] })
    await controller.until(() => ids.every((id) => told(controller, id).length === 2))
    await vi.waitFor(async () => expect(await keptRollouts(outboxDir)).toStrictEqual([]))
    before = await Promise.all(ids.map(async (id) => statusOf(first, id)))
    expect(before).toMatchObject([
      { status: 'success', reward: 1, err_message: null },
      { status: 'failure', reward: null },
      { status: 'cancelled', reward: null, err_message: 'cancelled' },
    ])
  }
  {
    await using second = await startChild({ outboxDir, controller })
    expect(await Promise.all(ids.map(async (id) => statusOf(second, id)))).toStrictEqual(before)
  }
  // A line from before it said how the rollout ended.
  const file = path.join(outboxDir, 'ended.jsonl')
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  const older = lines.map((line) => ({ ...(JSON.parse(line) as object), state: undefined }))
  await writeFile(file, older.map((line) => JSON.stringify(line)).join('\n'))
  await using third = await startChild({ outboxDir, controller })
  expect(await statusOf(third, 'good')).toMatchObject({ status: 'unknown' })
  expect((await third.post({ rollout_id: 'good', label: 'other' })).status).toBe(409)
})

it('says of a leased rollout that it was being graded when the server was killed', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const metadata = { never: true, in: 'grader' }
  const body = controller.rolloutBody({ metadata, completion_callback_url: undefined })
  let lease: LeaseHandle
  {
    await using first = await startChild({ outboxDir, controller })
    lease = await new LeaseClient(first).start(body)
    await lease.until((status) => status === 'grading')
  }
  await using second = await startChild({ outboxDir, controller })
  const again = new LeaseHandle(new LeaseClient(second), lease.accepted)
  expect(await again.once()).toMatchObject({ status: 'failure', err_message: grading })
})

it('gives a leased rollout one end, at whichever step on the disk the server is killed', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const steps: string[] = []
  const ends = new Set<string>()
  let child = await startChild({ outboxDir, controller })
  const lease = async (rollout_id: string): Promise<LeaseHandle> => {
    const body = controller.rolloutBody({ rollout_id, completion_callback_url: undefined })
    return new LeaseClient(child).start(body)
  }
  while (steps.at(-1) !== 'over') {
    const frozen = child.freezeDisk(steps.length)
    let handle: LeaseHandle | undefined
    let before: string | undefined
    const over = async (): Promise<string> => {
      handle = await lease(`r${steps.length}`)
      before = (await handle.until()).text
      // What is noted of its being fetched is behind the answer.
      await child.logged('rollout ended')
      await (await lease(`next-${steps.length}`)).until()
      return 'over'
    }
    steps.push(await Promise.race([frozen, over().catch(async () => never)]))
    await child.end()
    child = await startChild({ outboxDir, controller })
    if (handle === undefined) continue
    const { text, status, err_category, err_message, sample } = await new LeaseHandle(
      new LeaseClient(child),
      handle.accepted,
    ).until()
    expect(text).toBe(before ?? text)
    ends.add(`${status} ${err_category} ${err_message} ${sample?.reward}`)
    await expect(lease(handle.accepted.rollout_id)).rejects.toThrow('409')
    child = await replaced(child, async () => startChild({ outboxDir, controller }))
  }
  await child.end()
  // Four to accept it, one for its grading, two to keep its end; then that it was fetched.
  expect(steps.length).toBeGreaterThan(7)
  expect(ends).toStrictEqual(
    new Set([
      `failure agent_error ${running} undefined`,
      `failure agent_error ${grading} undefined`,
      'success null null 1',
    ]),
  )
})
