import {
  FakeTrainer,
  KilledServer,
  hang,
  keptRollouts,
  post,
  randomNumbers,
  reset,
  startServerProcess,
  temporaryFolder,
  type ServerProcess,
} from '@osmosis/testing/kit'
import { expect, it, vi } from 'vitest'

import { metrics } from './running-app.ts'

const restarted =
  'the rollout server restarted while the rollout was running; run it again under a new id'

async function startChild(outboxDir: string): Promise<ServerProcess> {
  const script = new URL('./child-app.ts', import.meta.url)
  return startServerProcess(script, { OUTBOX_DIR: outboxDir })
}

async function init({ url }: ServerProcess, body: Record<string, unknown>): Promise<unknown> {
  const answer = await post(`${url}/v1/rollout/init`, body)
  return [answer.status, await answer.json()]
}

/** What the trainer was told of a rollout: each different body once. */
function told({ completed }: FakeTrainer, rolloutId: string): string[] {
  const ends = completed
    .filter(({ body }) => body['rollout_id'] === rolloutId)
    .map(({ body }) => body as { status: string; error_message?: string })
    .map(({ status, error_message = '' }) => `${status} ${error_message}`.trim())
  return [...new Set(ends)]
}

it('tells the trainer that a rollout failed when the server was killed while it ran', async () => {
  const outboxDir = await temporaryFolder()
  await using trainer = await new FakeTrainer().start()
  trainer.policy = () => hang
  const body = trainer.initBody({ api_key: 'trainer-key' })
  {
    await using first = await startChild(outboxDir)
    await init(first, body)
    await trainer.until(() => trainer.chats.length === 1)
  }
  await using second = await startChild(outboxDir)
  const known = [202, { rollout_id: 'r1', tools: [] }]
  expect(await init(second, body)).toStrictEqual(known)
  await trainer.until(() => trainer.completed.length === 1)
  await vi.waitFor(async () => expect(await keptRollouts(outboxDir)).toStrictEqual([]))
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
})

it('gives a rollout one end, and knows it, at whichever step on the disk the server is killed', async () => {
  const outboxDir = await temporaryFolder()
  await using trainer = await new FakeTrainer().start()
  const steps: string[] = []
  const never = new Promise<never>(() => undefined)
  let child = await startChild(outboxDir)
  for (;;) {
    const rollout_id = `r${steps.length}`
    const body = trainer.initBody({ rollout_id })
    const frozen = child.freezeDisk(steps.length)
    const sent = init(child, body)
    const over = async (): Promise<string> => {
      await sent
      await trainer.until(() => told(trainer, rollout_id).length === 1)
      await vi.waitUntil(async () => (await keptRollouts(outboxDir)).length === 0, 2000)
      return 'over'
    }
    steps.push(await Promise.race([frozen, over().catch(async () => never)]))
    await child.end()
    if (steps.at(-1) === 'over') break
    child = await startChild(outboxDir)
    expect(await init(child, body)).toStrictEqual([202, { rollout_id, tools: [] }])
    await trainer.until(() => told(trainer, rollout_id).length > 0)
    await vi.waitFor(async () => expect(await keptRollouts(outboxDir)).toStrictEqual([]))
    expect(await init(child, body)).toStrictEqual([202, { rollout_id, tools: [] }])
    expect([[`ERROR ${restarted}`], ['COMPLETED']]).toContainEqual(told(trainer, rollout_id))
    // The next one has no step behind it, and a folder that this one has tidied.
    child.kill('SIGTERM')
    await child.exit
    child = await startChild(outboxDir)
  }
  const accepting = ['open', 'write', 'datasync', 'sync']
  const keepingAndNoting = ['write', 'datasync', 'write']
  const forgetting = ['open', 'write', 'datasync', 'sync', 'write']
  expect(steps).toStrictEqual([...accepting, ...keepingAndNoting, ...forgetting, 'over'])
})

it('gives each of 200 rollouts one end while the server is killed again and again', async () => {
  const seed = Number(process.env['SEED'] ?? 20_261_122)
  const random = randomNumbers(seed)
  const outboxDir = await temporaryFolder()
  await using trainer = await new FakeTrainer().start()
  trainer.otherwise = () => [503, reset, {}, {}, {}, {}][random(6)] ?? {}
  await using server = new KilledServer(async () => startChild(outboxDir))

  const ids = Array.from({ length: 200 }, (_, index) => `r${index}`)
  const waiting = ids.values()
  const drive = async (): Promise<void> => {
    for (const rollout_id of waiting) {
      const body = trainer.initBody({ rollout_id })
      const accepted = [202, { rollout_id, tools: [] }]
      expect(await server.persist(async (to) => init(to, body))).toStrictEqual(accepted)
      await trainer.until(() => told(trainer, rollout_id).length > 0)
      // Whoever sends it again is told nothing new.
      expect(await server.persist(async (to) => init(to, body))).toStrictEqual(accepted)
    }
  }
  const work = Promise.all(Array.from({ length: 16 }, drive))
  await server.killUntil(work, trainer, () => 40 + random(100))
  const { url } = await server.process
  await expect
    .poll(async () => (await fetch(`${url}/health`)).json(), { timeout: 20_000 })
    .toMatchObject({ undelivered: 0, active_rollouts: 0 })

  const right = new Set([`ERROR ${restarted}`, 'COMPLETED'])
  const ends = ids.map((id) => told(trainer, id).join(' AND '))
  const wrong = [...new Set(ends)].filter((end) => !right.has(end))
  expect({ seed, wrong }).toStrictEqual({ seed, wrong: [] })
  expect(new Set(ends)).toContain('COMPLETED')
  expect(server.kills).toBeGreaterThan(2)
}, 120_000)
