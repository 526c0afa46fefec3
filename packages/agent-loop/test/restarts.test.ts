import { setTimeout as sleep } from 'node:timers/promises'

import { expect, it } from 'vitest'

import {
  FakeTrainer,
  hang,
  post,
  startServerProcess,
  storedRollouts,
  temporaryFolder,
  type TestServerProcess,
} from '../../../test/kit/index.ts'
import { metrics, startApp } from './running-app.ts'

const restarted =
  'the rollout server restarted while the rollout was running; run it again under a new id'

async function startChild(outboxDir: string): Promise<TestServerProcess> {
  const script = new URL('./child-app.ts', import.meta.url)
  return startServerProcess(script, { OUTBOX_DIR: outboxDir })
}

async function init(
  { url }: { readonly url: string },
  body: Record<string, unknown>,
): Promise<unknown> {
  const answer = await post(`${url}/v1/rollout/init`, body)
  return [answer.status, await answer.json()]
}

/** The bodies that the trainer received for a rollout: each different one once. */
function receivedBodies({ completed }: FakeTrainer, rolloutId: string): string[] {
  const ends = completed
    .filter(({ body }) => body['rollout_id'] === rolloutId)
    .map(({ body }) => body as { status: string; error_message?: string })
    .map(({ status, error_message = '' }) => `${status} ${error_message}`.trim())
  return [...new Set(ends)]
}

it(
  'reports a rollout as failed after the server was killed while it ran',
  { tags: 'slow' },
  async () => {
    const outboxDir = await temporaryFolder()
    await using trainer = await new FakeTrainer().start()
    trainer.policy = () => hang
    const body = trainer.initBody({ api_key: 'trainer-key' })
    {
      await using first = await startChild(outboxDir)
      await init(first, body)
      await trainer.until(() => trainer.chats.length === 1)
    }
    await using second = await startApp({ outboxDir, trainer })
    const known = [202, { rollout_id: 'r1', tools: [] }]
    expect(await init(second, body)).toStrictEqual(known)
    await trainer.until(() => trainer.completed.length === 1)
    await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
    expect(await init(second, body)).toStrictEqual(known)

    expect(trainer.completed).toMatchObject([
      { headers: { 'idempotency-key': 'r1/completed', authorization: 'Bearer trainer-key' } },
    ])
    expect(trainer.completed[0]?.body).toStrictEqual({
      rollout_id: 'r1',
      status: 'ERROR',
      final_messages: [],
      finish_reason: 'error',
      error_message: restarted,
      metrics: metrics(),
      extra_fields: {},
    })
    expect(trainer.chats.length).toBe(1)
  },
)

// Dozens of processes one after the other: on a busy machine they take their time.
const timeout = 600_000

it(
  'gives a rollout one end, and remembers it, at whichever step on the disk the server is killed',
  { timeout, tags: 'nightly' },
  async () => {
    const outboxDir = await temporaryFolder()
    await using trainer = await new FakeTrainer().start()
    const steps: string[] = []
    const never = new Promise<never>(() => undefined)
    for (;;) {
      const child = await startChild(outboxDir)
      const rollout_id = `r${steps.length}`
      const body = trainer.initBody({ rollout_id })
      const frozen = child.freezeDisk(steps.length)
      const sent = init(child, body)
      const watching = new AbortController()
      const over = async (): Promise<string> => {
        await sent
        await trainer.until(() => receivedBodies(trainer, rollout_id).length === 1)
        while (!watching.signal.aborted && (await storedRollouts(outboxDir)).length > 0)
          await sleep(10)
        return watching.signal.aborted ? never : 'over'
      }
      steps.push(await Promise.race([frozen, over().catch(async () => never)]))
      watching.abort()
      await child.end()
      if (steps.at(-1) === 'over') break
      // It compacts the folder, so the next one starts without steps.
      await using next = await startApp({ outboxDir, trainer })
      expect(await init(next, body)).toStrictEqual([202, { rollout_id, tools: [] }])
      await trainer.until(() => receivedBodies(trainer, rollout_id).length > 0)
      await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
      expect(await init(next, body)).toStrictEqual([202, { rollout_id, tools: [] }])
      expect([[`ERROR ${restarted}`], ['COMPLETED']]).toContainEqual(
        receivedBodies(trainer, rollout_id),
      )
    }
    const accepting = ['open', 'write', 'datasync', 'sync']
    const keepingAndNoting = ['write', 'datasync', 'write']
    const forgetting = ['open', 'write', 'datasync', 'sync', 'write']
    expect(steps).toStrictEqual([...accepting, ...keepingAndNoting, ...forgetting, 'over'])
  },
)
