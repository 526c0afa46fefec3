import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

import type { StatusResponseBody } from '@osmosis/protocol/wire'
import { expect, it } from 'vitest'

import {
  FakeController,
  storedRollouts,
  LeaseClient,
  LeaseHandle,
  post,
  temporaryFolder,
  type CallbackAnswer,
} from '../../../test/kit/index.ts'
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

it(
  'remembers how delivered rollouts ended after a restart, for a limited time',
  { tags: 'slow' },
  async () => {
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
  },
)

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

/** The callback bodies that a controller received for a rollout: each different one once, in order. */
function receivedBodies(controller: FakeController, rolloutId: string): string[] {
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

async function statusOf({ url }: { url: string }, id: string): Promise<StatusResponseBody> {
  return (await fetch(`${url}/rollout/${id}/status`)).json() as Promise<StatusResponseBody>
}
