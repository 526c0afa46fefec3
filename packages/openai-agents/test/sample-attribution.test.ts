import {
  type AgentInputItem,
  getLogger,
  MemorySession,
  run,
  Runner,
  RunState,
  type Session,
  tool,
} from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { callAdd, messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'
import { addTool, kindsOf, policyAgent } from './rollout.ts'

test('a streamed and a plain run in parallel keep their calls apart', async () => {
  await using server = await startPolicyServer((request) =>
    messagesOf(request).length === 1 ? callAdd : 'done',
  )
  await rolloutOn(server).run(async () => {
    const agent = policyAgent({ tools: [addTool()] })
    const streamed = async (): Promise<void> => {
      const session = new OsmosisMemorySession({ name: 'planner' })
      const result = await run(agent, 'planner', { session, stream: true })
      await result.completed
    }
    const session = new OsmosisMemorySession({ name: 'executor' })
    await Promise.all([streamed(), new Runner().run(agent, 'executor', { session })])
  })
  expect(
    sampleIds(server)
      .map(String)
      .toSorted((a, b) => a.localeCompare(b)),
  ).toEqual(['executor', 'executor', 'planner', 'planner'])
  for (const request of server.requests) {
    expect(messagesOf(request)[0]?.content).toBe(request.headers['x-sample-id'])
  }
})

test('the calls of a handoff say which agent made them, and which instructions it had', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ id: 'c1', name: 'transfer_to_Refunds', arguments: '{}' }] },
    'Which order?',
    'Done.',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const refunds = policyAgent({ name: 'Draft', instructions: 'Refund.' }).clone({
      name: 'Refunds',
    })
    const triage = policyAgent({ name: 'Triage', instructions: 'Triage.', handoffs: [refunds] })
    const session = new OsmosisMemorySession({ name: 'main' })
    const { lastAgent } = await run(triage, 'refund', { session })
    await run(lastAgent ?? triage, 'order 7', { session })
  })
  const { calls, trajectoryMessages } = await sampleOf(rollout, 'main')
  expect(trajectoryMessages?.map(({ role }) => role)).toEqual([
    'system',
    'user',
    'assistant',
    'tool',
    'assistant',
    'user',
    'assistant',
  ])
  expect(
    calls.map(({ agent, instructionsChanged, answerIndex, instructions }) => [
      agent,
      instructionsChanged,
      answerIndex,
      instructions,
    ]),
  ).toEqual([
    ['Triage', false, 2, [{ role: 'system', content: 'Triage.' }]],
    ['Refunds', true, 4, null],
    ['Refunds', false, 6, null],
  ])
})

test('an agent that was made outside of rollouts has its name, too', async () => {
  await using server = await startPolicyServer(['one'])
  const model = new OsmosisRolloutModel({ fallback: 'gpt-4.1' })
  const agent = new OsmosisAgent({ name: 'Outside', model })
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    run(agent, 'go', { session: new OsmosisMemorySession({ name: 'main' }) }),
  )
  const sample = await sampleOf(rollout, 'main')
  expect(sample.calls.map(({ agent: name }) => name)).toEqual(['Outside'])
})

test('a session that is used for three runs holds one conversation', async () => {
  await using server = await startPolicyServer(['one', 'two', 'three'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    for (const input of ['first', 'second', 'third']) await run(policyAgent(), input, { session })
  })
  const sample = await sampleOf(rollout, 'main')
  expect(kindsOf(sample)).toEqual(['user', 'assistant', 'user', 'assistant', 'user', 'assistant'])
  expect(sample.trajectoryMessages).toHaveLength(6)
  expect(sample.extraFields).toEqual({})
})

test('items a session starts with are part of its conversation', async () => {
  await using server = await startPolicyServer(['two'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const initialItems: AgentInputItem[] = [{ role: 'user', content: 'before' }]
    const session = new OsmosisMemorySession({ name: 'main', initialItems })
    await run(policyAgent(), 'now', { session })
  })
  expect(messagesOf(server.requests[0]).map(({ content }) => content)).toEqual(['before', 'now'])
  expect(kindsOf(await sampleOf(rollout, 'main'))).toEqual(['user', 'user', 'assistant'])
})

test('a session takes the options of the SDK: its id names the sample, its logger logs', async () => {
  await using server = await startPolicyServer(['two'])
  const rollout = rolloutOn(server)
  const logged: string[] = []
  const logger = {
    ...getLogger('session'),
    debug: (message: string) => void logged.push(message),
    dontLogModelData: false,
    dontLogToolData: false,
  }
  await rollout.run(async () => {
    const session = new OsmosisMemorySession({ sessionId: 'customer-7', logger })
    await run(policyAgent(), 'now', { session })
    expect(await session.getSessionId()).toBe('customer-7')
    const named = new OsmosisMemorySession({ sessionId: 'customer 7, ü', name: 'other' })
    expect([await named.getSessionId(), named.name]).toEqual(['customer 7, ü', 'other'])
  })
  expect(kindsOf(await sampleOf(rollout, 'customer-7'))).toEqual(['user', 'assistant'])
  expect(logged).toContainEqual(expect.stringContaining('memory session (customer-7)'))
})

test('what the user does to a session behind a run is done to the sample', async () => {
  await using server = await startPolicyServer(['one'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    await run(policyAgent(), 'first', { session })
    await session.popItem()
    await session.addItems([{ role: 'user', content: 'verdict: good' }])
  })
  expect(kindsOf(await sampleOf(rollout, 'main'))).toEqual(['user', 'user'])
})

test('a run without a session does not inherit that of the run before it', async () => {
  await using server = await startPolicyServer(['one', 'never asked'])
  const second = rolloutOn(server).run(async () => {
    await run(policyAgent(), 'first', { session: new OsmosisMemorySession({ name: 'main' }) })
    await run(policyAgent(), 'second')
  })
  await expect(second).rejects.toMatchObject({ code: 'missing_session' })
  expect(server.requests).toHaveLength(1)
})

test('a session inside a session of the user’s own gives the sample its name', async () => {
  class SlowSession implements Session {
    readonly #inner: OsmosisMemorySession
    constructor(inner: OsmosisMemorySession) {
      this.#inner = inner
    }
    async getSessionId(): Promise<string> {
      return 'slow'
    }
    async getItems(limit?: number): Promise<AgentInputItem[]> {
      await new Promise((resolve) => setImmediate(resolve))
      return this.#inner.getItems(limit)
    }
    async addItems(items: AgentInputItem[]): Promise<void> {
      await this.#inner.addItems(items)
    }
    async popItem(): Promise<AgentInputItem | undefined> {
      return this.#inner.popItem()
    }
    async clearSession(): Promise<void> {
      await this.#inner.clearSession()
    }
  }
  await using server = await startPolicyServer([callAdd, 'done'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const session = new SlowSession(new OsmosisMemorySession({ name: 'main' }))
    await run(policyAgent({ tools: [addTool()] }), 'go', { session })
  })
  expect(sampleIds(server)).toEqual(['main', 'main'])
  expect(kindsOf(await sampleOf(rollout, 'main'))).toHaveLength(4)
})

test('a run that waits for an approval continues in its sample from a serialized state', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ id: 'call-1', name: 'pay', arguments: '{"amount":5}' }] },
    'paid',
  ])
  const rollout = rolloutOn(server)
  const finalOutput = await rollout.run(async () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: z.object({ amount: z.number() }),
      needsApproval: true,
      execute: async ({ amount }) => `paid ${amount}`,
    })
    const agent = policyAgent({ tools: [pay] })
    const session = new OsmosisMemorySession({ name: 'main' })
    const paused = await run(agent, 'go', { session })
    const state = await RunState.fromString(agent, paused.state.toString())
    for (const interruption of state.getInterruptions()) state.approve(interruption)
    return (await run(agent, state, { session })).finalOutput
  })
  expect(finalOutput).toBe('paid')
  expect(sampleIds(server)).toEqual(['main', 'main'])
  const sample = await sampleOf(rollout, 'main')
  expect(kindsOf(sample)).toEqual(['user', 'function_call', 'function_call_result', 'assistant'])
  expect(sample.extraFields).toEqual({})
})

test('outside of rollouts a session is a plain memory session', async () => {
  const session = new OsmosisMemorySession({ name: 'plain' })
  expect(session).toBeInstanceOf(MemorySession)
  await session.addItems([{ role: 'user', content: 'hello' }])
  expect(await session.getItems()).toEqual([{ role: 'user', content: 'hello' }])
  expect(await session.getSessionId()).toBe('plain')
  expect(await session.popItem()).toEqual({ role: 'user', content: 'hello' })
})
