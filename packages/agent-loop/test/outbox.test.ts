import { expect, it, vi } from 'vitest'

import { FakeTrainer, post, storedRollouts, temporaryFolder } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp } from './running-app.ts'

it('delivers the result with the next server when the trainer was unreachable', async () => {
  const outboxDir = await temporaryFolder()
  await using trainer = await new FakeTrainer().start()
  const loop = loopOf(async (ctx) => ({ ...(await answerOnce(ctx)), reward: 0.5 }))
  trainer.otherwise = () => 503
  {
    await using first = await startApp({ loop, outboxDir })
    const init = trainer.initBody({ rollout_id: 'r1', api_key: 'trainer-key' })
    await post(`${first.url}/v1/rollout/init`, init)
    await trainer.until(() => trainer.completed.length > 0)
  }
  expect(await storedRollouts(outboxDir)).toStrictEqual(['r1'])

  await using second = await startApp({ outboxDir })
  const again = await post(`${second.url}/v1/rollout/init`, trainer.initBody({ rollout_id: 'r1' }))
  expect([again.status, await again.json()]).toStrictEqual([202, { rollout_id: 'r1', tools: [] }])
  trainer.otherwise = () => 200
  await vi.waitFor(() => expect(second.app.undelivered).toBe(0), 60_000)

  expect(new Set(trainer.completed.map(({ raw }) => raw)).size).toBe(1)
  expect(trainer.completed.at(-1)).toMatchObject({
    headers: { 'idempotency-key': 'r1/completed', authorization: 'Bearer trainer-key' },
    body: { rollout_id: 'r1', status: 'COMPLETED', reward: 0.5 },
  })
  // What is acknowledged is delivered; the record goes a moment later.
  await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
})
