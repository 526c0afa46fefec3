import { FakeTrainer, hang, storedRollouts, temporaryFolder } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { init, restarted, startChild } from './killed-app.ts'
import { metrics, startApp } from './running-app.ts'

it('reports a rollout as failed after the server was killed while it ran', async () => {
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
})
