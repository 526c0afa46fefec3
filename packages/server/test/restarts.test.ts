import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import {
  FakeController,
  storedRollouts,
  LeaseClient,
  LeaseHandle,
  post,
  temporaryFolder,
  type CallbackAnswer,
} from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import {
  grading,
  running,
  receivedBodies,
  statusOf,
  wholeEnds,
  type TerminalBody,
} from './ends-of-killed.ts'
import { startServer } from './running-server.ts'
import { startChild } from './start-child.ts'

/** Never answers. */
const hold: CallbackAnswer = () => undefined

it('gives rollouts one end when the server is killed in any of their phases', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const heard = async (kind: string, id: string): Promise<void> =>
    controller.until(() =>
      controller.callbacks.some(
        (each) => each.kind === kind && (each.body as TerminalBody).rollout_id === id,
      ),
    )
  const neverGraded = { metadata: { never: true, in: 'grader' } }
  const unreachable = { chat_completions_url: 'http://127.0.0.1:1' }
  const leased = controller.rolloutBody({
    rollout_id: 'leased',
    completion_callback_url: undefined,
    ...neverGraded,
  })
  let lease: LeaseHandle
  let failed: unknown
  {
    await using first = await startChild({ outboxDir, controller })
    const send = async (rollout_id: string, overrides = {}): Promise<void> =>
      expect((await first.post({ rollout_id, ...overrides })).status).toBe(202)
    lease = await new LeaseClient(first).start(leased)
    await lease.until((status) => status === 'grading')
    controller.answers['completion'] = [hold]
    await send('with an unacknowledged completion')
    await heard('completion', 'with an unacknowledged completion')
    controller.answers['completion'] = [hold]
    await send('failed', unreachable)
    await heard('completion', 'failed')
    failed = controller.callbacks.at(-1)?.body
    await send('graded', neverGraded)
    await heard('completion', 'graded')
    controller.answers['grader'] = [hold]
    await send('with an unacknowledged reward')
    await heard('grader', 'with an unacknowledged reward')
    controller.hanging = true
    const open = controller.policyHeaders.length
    await send('asking')
    await controller.until(() => controller.policyHeaders.length > open)
  }
  controller.hanging = false
  const calls = controller.policyHeaders.length
  await using second = await startServer({ outboxDir, controller })

  const reason = (failed as TerminalBody).err_message
  const expected: Record<string, { overrides?: object; ends: string[]; status: object }> = {
    asking: {
      ends: wholeEnds['killed while running'],
      status: { status: 'failure', reward: null, err_message: running },
    },
    'with an unacknowledged completion': {
      ends: wholeEnds['killed while grading'],
      status: { status: 'failure', reward: null, err_message: grading },
    },
    graded: {
      overrides: neverGraded,
      ends: wholeEnds['killed while grading'],
      status: { status: 'failure', reward: null, err_message: grading },
    },
    'with an unacknowledged reward': {
      ends: wholeEnds.success,
      status: { status: 'success', reward: 1, err_message: null },
    },
    failed: {
      overrides: unreachable,
      ends: [`completion http_error ${reason}`, `grader http_error ${reason}`],
      status: { status: 'failure', reward: null, err_message: reason },
    },
  }
  const expectKnown = async (): Promise<void> => {
    for (const [rollout_id, { overrides, status }] of Object.entries(expected)) {
      const same = await second.post({ rollout_id, ...overrides })
      const other = await second.post({ rollout_id, ...overrides, label: 'other' })
      expect([same.status, await same.json(), other.status]).toStrictEqual([202, {}, 409])
      expect(await statusOf(second, rollout_id)).toMatchObject(status)
    }
  }
  await expectKnown()
  const ids = Object.keys(expected)
  await controller.until(() => ids.every((id) => receivedBodies(controller, id).length === 2))
  await expect
    .poll(async () => (await storedRollouts(outboxDir)).filter((id) => ids.includes(id)))
    .toStrictEqual([])
  await expectKnown()
  for (const [id, { ends }] of Object.entries(expected)) {
    expect(receivedBodies(controller, id)).toStrictEqual(ends)
  }
  expect(controller.policyHeaders.length).toBe(calls)
  for (const { kind, body } of controller.callbacks) {
    const { samples, sample, status } = body as TerminalBody
    if (kind !== 'grader') continue
    const isRewarded = status === 'success'
    expect([Object.keys(samples ?? {}), sample?.reward]).toStrictEqual(
      isRewarded ? [['main'], 1] : [[], undefined],
    )
  }
  const again = new LeaseHandle(new LeaseClient(second), lease.accepted)
  expect(await again.once()).toMatchObject({ status: 'failure', err_message: grading })
})

it('accepts nothing when the disk is full, and reports no contradictory outcomes of running rollouts', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  {
    await using first = await startChild({ outboxDir, controller })
    expect((await first.post({ metadata: { never: true, in: 'grader' } })).status).toBe(202)
    await controller.until(() => receivedBodies(controller, 'r1').length === 1)
    await first.fillDisk()
    const refused = await first.post({ rollout_id: 'r2' })
    expect([refused.status, refused.headers.get('retry-after')]).toStrictEqual([503, '5'])
    await first.logged('rollout not accepted: ENOSPC')
    const cancel = { ids: ['r1'] }
    await post(`${first.url}/rollout/cancel`, cancel)
    await controller.until(() => receivedBodies(controller, 'r1').length === 2)
  }
  await using second = await startServer({ outboxDir, controller })
  expect((await second.post({ rollout_id: 'r2' })).status).toBe(202)
  await controller.until(() => receivedBodies(controller, 'r2').length === 2)
  expect(receivedBodies(controller, 'r1')).toStrictEqual([
    'completion success',
    'grader agent_error cancelled',
  ])
  await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
})

it('remembers how delivered rollouts ended after a restart, for a limited time', async () => {
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
    await controller.until(() => ids.every((id) => receivedBodies(controller, id).length === 2))
    await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
    before = await Promise.all(ids.map(async (id) => statusOf(first, id)))
    expect(before).toMatchObject([
      { status: 'success', reward: 1, err_message: null },
      { status: 'failure', reward: null },
      { status: 'cancelled', reward: null, err_message: 'cancelled' },
    ])
  }
  {
    await using second = await startServer({ outboxDir, controller })
    expect(await Promise.all(ids.map(async (id) => statusOf(second, id)))).toStrictEqual(before)
  }
  // A line from before it said how the rollout ended.
  const file = path.join(outboxDir, 'ended.jsonl')
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  const older = lines.map((line) => ({ ...(JSON.parse(line) as object), state: undefined }))
  await writeFile(file, older.map((line) => JSON.stringify(line)).join('\n'))
  await using third = await startServer({ outboxDir, controller })
  expect(await statusOf(third, 'good')).toMatchObject({ status: 'unknown' })
  expect((await third.post({ rollout_id: 'good', label: 'other' })).status).toBe(409)
})

// Dozens of processes one after the other: on a busy machine they take their time.
const timeout = 600_000

const unfinished = new Set(['unknown', 'queued', 'running', 'grading'])
const never = new Promise<never>(() => undefined)

it(
  'gives a rollout one end, and retains it, at every step on the disk at which the server is killed',
  { tags: 'slow', timeout },
  async () => {
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    const steps: string[] = []
    for (let count = 0; ; count += 1) {
      const child = await startChild({ outboxDir, controller })
      const rollout_id = `r${count}`
      const frozen = child.freezeDisk(count)
      const posted = child.post({ rollout_id }).catch(() => undefined)
      const watching = new AbortController()
      const over = posted.then(async () => {
        await controller.until(() => receivedBodies(controller, rollout_id).length === 2)
        while (!watching.signal.aborted && (await storedRollouts(outboxDir)).length > 0)
          await sleep(10)
        return watching.signal.aborted ? never : 'over'
      })
      steps.push(await Promise.race([frozen, over]))
      watching.abort()
      const before = await statusOf(child, rollout_id)
      await child.end()
      if (steps.at(-1) === 'over') break
      // It compacts the folder, so the next one starts without steps.
      await using next = await startServer({ outboxDir, controller })
      // Accepted before, or not: now it is, and leads to one end.
      expect((await next.post({ rollout_id })).status).toBe(202)
      await controller.until(() => receivedBodies(controller, rollout_id).length >= 2)
      await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
      expect((await next.post({ rollout_id })).status).toBe(202)
      expect(Object.values(wholeEnds)).toContainEqual(receivedBodies(controller, rollout_id))
      // Status requests before the restart reported no other end.
      const after = await statusOf(next, rollout_id)
      expect(unfinished.has(before.status) ? after : before).toStrictEqual(after)
    }
    // A file has to be there, and its name be durable, before what is in it is.
    const accepting = ['open', 'write', 'datasync', 'sync']
    const keeping = ['write', 'datasync']
    const noting = ['write']
    const forgetting = ['open', 'write', 'datasync', 'sync', 'write']
    const whole = [
      ...accepting,
      ...keeping,
      ...noting,
      ...keeping,
      ...noting,
      ...forgetting,
      'over',
    ]
    expect(steps).toStrictEqual(whole)
  },
)

it(
  'gives a leased rollout one end, at whichever step on the disk the server is killed',
  { tags: 'slow', timeout },
  async () => {
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    const steps: string[] = []
    const ends = new Set<string>()
    const lease = async (server: { readonly url: string }, id: string): Promise<LeaseHandle> => {
      const overrides = { rollout_id: id, completion_callback_url: undefined }
      return new LeaseClient(server).start(controller.rolloutBody(overrides))
    }
    while (steps.at(-1) !== 'over') {
      const child = await startChild({ outboxDir, controller })
      const frozen = child.freezeDisk(steps.length)
      let handle: LeaseHandle | undefined
      let before: string | undefined
      const over = async (): Promise<string> => {
        handle = await lease(child, `r${steps.length}`)
        before = (await handle.until()).text
        // The note that it was fetched follows the answer.
        await child.logged('rollout ended')
        await (await lease(child, `next-${steps.length}`)).until()
        return 'over'
      }
      steps.push(await Promise.race([frozen, over().catch(async () => never)]))
      await child.end()
      await using next = await startServer({ outboxDir, controller })
      if (handle === undefined) continue
      const { text, status, err_category, err_message, sample } = await new LeaseHandle(
        new LeaseClient(next),
        handle.accepted,
      ).until()
      expect(text).toBe(before ?? text)
      ends.add(`${status} ${err_category} ${err_message} ${sample?.reward}`)
      await expect(lease(next, handle.accepted.rollout_id)).rejects.toThrow('409')
    }
    // Four to accept it, one for its grading, two to keep its end; then that it was fetched.
    expect(steps.length).toBeGreaterThan(7)
    expect(ends).toStrictEqual(
      new Set([
        `failure agent_error ${running} undefined`,
        `failure agent_error ${grading} undefined`,
        'success null null 1',
      ]),
    )
  },
)
