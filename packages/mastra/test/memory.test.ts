import { Agent } from '@mastra/core/agent'
import { MockMemory } from '@mastra/core/memory'
import { rolloutMemory, rolloutModel } from '@osmosis/mastra'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'

// What programs make once, at the top of a module, and rollouts share.
const agent = new Agent({
  id: 'main',
  name: 'Main',
  instructions: '',
  model: rolloutModel('main'),
  memory: new MockMemory({ options: { lastMessages: 20 } }),
})

it('parallel rollouts remember their own conversations alone', async () => {
  await using server = await startPolicyServer(
    ({ headers, body }) =>
      `${String(headers['x-rollout-id'])}, ${JSON.stringify(body['messages']).length}`,
  )
  const rollouts = Array.from({ length: 20 }, (_unused, n) => rolloutOn(server, `rollout-${n}`))
  await Promise.all(
    rollouts.map(async (rollout) =>
      rollout.run(async () => {
        for (const turn of [1, 2, 3]) {
          await agent.generate(`${rollout.rolloutId}: ${turn}`, { memory: rolloutMemory() })
        }
      }),
    ),
  )
  for (const rollout of rollouts) {
    const { calls, trajectoryMessages } = await sampleOf(rollout)
    const id = rollout.rolloutId
    expect(trajectoryMessages).toMatchObject([
      { role: 'user', content: `${id}: 1` },
      { role: 'assistant', content: expect.stringContaining(`${id},`) },
      { role: 'user', content: `${id}: 2` },
      { role: 'assistant', content: expect.stringContaining(`${id},`) },
      { role: 'user', content: `${id}: 3` },
      { role: 'assistant', content: expect.stringContaining(`${id},`) },
    ])
    expect(calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true, true])
  }
})

it('a rollout that runs again under its id starts without memories', async () => {
  await using server = await startPolicyServer(() => 'fine')
  for (const attempt of ['first', 'second']) {
    await rolloutOn(server).run(async () => agent.generate(attempt, { memory: rolloutMemory() }))
  }
  expect(
    server.requests.map((request) => messagesOf(request).map(({ content }) => content)),
  ).toEqual([['first'], ['second']])
})

it('threads of other names share the resource of the rollout, and nothing else', async () => {
  await using server = await startPolicyServer([])
  const [first, again, other] = rolloutOn(server).run(() => [
    rolloutMemory(),
    rolloutMemory(),
    rolloutMemory('critic'),
  ])
  expect(again).toEqual(first)
  expect(other?.resource).toBe(first?.resource)
  expect(other?.thread).not.toBe(first?.thread)
  expect(rolloutOn(server).run(() => rolloutMemory()).resource).not.toBe(first?.resource)
  expect(() => rolloutMemory()).toThrow(expect.objectContaining({ code: 'no_rollout_context' }))
})
