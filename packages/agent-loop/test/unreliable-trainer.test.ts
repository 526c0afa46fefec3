// @module-tag slow
import { expect, it } from 'vitest'

import { reset, type LoopTrainerAnswer } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp } from './running-app.ts'

const faults: LoopTrainerAnswer[] = [
  500,
  503,
  408,
  reset,
  (response) => void response.writeHead(429, { 'retry-after': '0.01' }).end(),
  (response) => {
    response.writeHead(200, { 'content-length': '9' })
    response.write('{', () => response.socket?.destroy())
  },
]

it('loses, doubles and contradicts no result of 100 rollouts although every third delivery fails', async () => {
  await using running = await startApp({
    maxConcurrent: 50,
    loop: loopOf(async (ctx) => {
      const result = await answerOnce(ctx)
      if (ctx.request.rolloutId.endsWith('7')) throw new Error('failed')
      return { ...result, reward: 1 }
    }),
    settings: { client: { completeRolloutRetries: null } },
  })
  let answered = 0
  running.trainer.otherwise = () => {
    answered += 1
    return answered % 3 === 0 ? (faults[(answered / 3) % faults.length] ?? 200) : 200
  }
  const ids = Array.from({ length: 100 }, (_, index) => `r${index}`)
  await Promise.all(ids.map((rollout_id) => running.init({ rollout_id })))
  await running.app.drain()

  const bodies = new Map<string, Set<string>>()
  for (const { raw, body } of running.trainer.completed) {
    const id = body['rollout_id'] as string
    bodies.set(id, (bodies.get(id) ?? new Set()).add(raw))
  }
  expect(new Set(bodies.keys())).toStrictEqual(new Set(ids))
  for (const [id, versions] of bodies) {
    expect(versions.size).toBe(1)
    const [raw = ''] = versions
    const status = id.endsWith('7') ? 'ERROR' : 'COMPLETED'
    expect(JSON.parse(raw)).toMatchObject({ status })
  }
  expect(running.app.undelivered).toBe(0)
})
