import { type AgentInputItem, run, RunState, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { messagesOf, rolloutOn } from '../../../test/kit/index.ts'

const pay = tool({
  name: 'pay',
  description: 'Pay.',
  parameters: z.object({ euros: z.number() }),
  needsApproval: true,
  execute: ({ euros }) => `paid ${euros}`,
})

const agentOf = () =>
  new OsmosisAgent({ name: 'payer', model: new OsmosisRolloutModel(), tools: [pay] })

test('a session that is made again with its id, to continue after an approval, continues the sample', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ id: 'c1', name: 'pay', arguments: '{"euros": 5}' }] },
    'It is paid.',
  ])
  const rollout = rolloutOn(server)
  const said = await rollout.run(async () => {
    const first = new OsmosisMemorySession({ sessionId: 'customer-1' })
    const stopped = await run(agentOf(), 'pay 5 euros', { session: first })
    const stored = stopped.state.toString()
    const initialItems: AgentInputItem[] = await first.getItems()

    // Another request of a server, which has only what was stored.
    const agent = agentOf()
    const state = await RunState.fromString(agent, stored)
    for (const interruption of state.getInterruptions()) state.approve(interruption)
    const session = new OsmosisMemorySession({ sessionId: 'customer-1', initialItems })
    return (await run(agent, state, { session })).finalOutput
  })
  expect(said).toBe('It is paid.')
  const samples = await rollout.getSamples()
  expect([...samples.keys()]).toEqual(['customer-1'])
  const sample = samples.get('customer-1')
  expect(sample?.calls).toHaveLength(2)
  expect(sample?.trajectoryMessages).toMatchObject([
    { role: 'user', content: 'pay 5 euros' },
    { role: 'assistant', tool_calls: [{ id: 'c1' }] },
    { role: 'tool', tool_call_id: 'c1', content: 'paid 5' },
    { role: 'assistant', content: 'It is paid.' },
  ])
  expect(messagesOf(server.requests[1])).toHaveLength(3)
  expect(JSON.stringify(sample?.messages)).toContain('It is paid.')
})

test('sessions of another name or without an id are still told apart', async () => {
  await rolloutOn({ url: 'http://policy.invalid' }).run(async () => {
    const made = new OsmosisMemorySession({ sessionId: 'a', name: 'main' })
    expect(new OsmosisMemorySession({ sessionId: 'a', name: 'main' }).name).toBe(made.name)
    expect(new OsmosisMemorySession({ sessionId: 'a', name: 'other' }).name).toBe('other')
    for (const options of [{ name: 'main' }, { name: 'main', sessionId: 'b' }]) {
      expect(() => new OsmosisMemorySession(options)).toThrow(/A sample named "main"/)
    }
  })
})
