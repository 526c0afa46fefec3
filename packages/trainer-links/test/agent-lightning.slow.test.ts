import { setTimeout as sleep } from 'node:timers/promises'

import { startServerProcess, type TestServerProcess } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { apiKey, gateway, startWorker, trainedRewards } from './gateway-worker.ts'
import { model, plannedAgent, row } from './planned-agent.ts'

test('a grader that exceeds the time of its rollout fails, before another worker ends the rollout', async () => {
  const { fake, ids } = await gateway([{ input: row({ grading: 'hangs' }), timeoutSeconds: 12 }], {
    // Two calls take most of the time: the grader's own limit would be over long after the rollout's.
    model: async (body, rolloutId) => {
      await sleep(4000)
      return model(body, rolloutId)
    },
  })
  const agent = plannedAgent()
  startWorker(fake, agent, { abandonedAfterSeconds: 1 })
  await fake.allEnded()
  const [id = ''] = ids
  expect(fake.rollout(id)).toMatchObject({
    state: 'failed',
    errorMessage: 'agent and grader together exceeded the 12s that the trainer gives a rollout',
  })
  expect(agent.stopped).toEqual([id])
  expect(fake.trained()).toEqual([])
})

test('another worker ends the rollouts of a worker that was killed, and none of them is trained', async () => {
  let killed: TestServerProcess | undefined
  const { fake, ids } = await gateway(
    Array.from({ length: 20 }, (_, n) => ({
      input: row({ reward: n, calls: 3 }),
      timeoutSeconds: 4,
    })),
    {
      model: async (body, rolloutId) => {
        // Kills the worker in the middle of some rollouts, whose answers then reach no one.
        if (fake.rollouts.flatMap(({ events }) => events).length > 20) killed?.kill('SIGKILL')
        return model(body, rolloutId)
      },
    },
  )
  const script = new URL('worker-process.ts', import.meta.url)
  const env = { GATEWAY_URL: fake.url, GATEWAY_KEY: apiKey }
  killed = await startServerProcess(script, env)
  await killed.exit
  const left = fake.rollouts.filter(({ state }) => state === 'running').map(({ id }) => id)
  expect(left.length).toBeGreaterThan(0)

  await startServerProcess(script, env)
  await fake.allEnded()
  const rewards = trainedRewards(fake)
  for (const [n, id] of ids.entries()) {
    const state = fake.rollout(id).state
    expect([id, state]).toEqual([id, left.includes(id) ? 'failed' : 'succeeded'])
    expect([id, rewards[id]]).toEqual([id, left.includes(id) ? undefined : [n, n, n]])
  }
})
