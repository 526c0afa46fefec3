import { handoff, run, tool, type Tool } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'
import { kindsOf, policyAgent } from './rollout.ts'

const askHelper = {
  toolCalls: [{ id: 'call-1', name: 'helper', arguments: '{"input":"help"}' }],
}

/** A tool named `helper` that runs `body`. */
function helperTool(body: () => Promise<string>): Tool {
  return tool({
    name: 'helper',
    description: 'Helps.',
    parameters: z.object({ input: z.string() }),
    execute: body,
  })
}

async function runWith(helper: Tool): Promise<void> {
  const session = new OsmosisMemorySession({ name: 'main' })
  await run(policyAgent({ tools: [helper] }), 'go', { session })
}

test('an agent used as a tool belongs to the sample of the run around it', async () => {
  await using server = await startPolicyServer([askHelper, 'helped', 'done'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const helper = policyAgent({ name: 'helper' }).asTool({ toolName: 'helper' })
    await runWith(helper)
  })
  expect(sampleIds(server)).toEqual(['main', 'main', 'main'])
  const sample = await sampleOf(rollout, 'main')
  expect(kindsOf(sample)).toEqual(['user', 'function_call', 'function_call_result', 'assistant'])
  expect(sample.trajectoryMessages?.at(-1)).toMatchObject({ content: 'done' })
  expect(sample.extraFields['other_conversations']).toEqual([
    [
      { role: 'user', content: 'help' },
      { role: 'assistant', content: 'helped' },
    ],
  ])
})

test('an agent used as a tool with a session of its own is a sample of its own', async () => {
  await using server = await startPolicyServer([askHelper, 'helped', 'done'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const helper = policyAgent({ name: 'helper' }).asTool({
      toolName: 'helper',
      runOptions: { session: new OsmosisMemorySession({ name: 'sub' }) },
    })
    await runWith(helper)
  })
  expect(sampleIds(server)).toEqual(['main', 'sub', 'main'])
  expect(kindsOf(await sampleOf(rollout, 'sub'))).toEqual(['user', 'assistant'])
  expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
})

test('a run inside a tool belongs to the outer sample, or to the one it is given', async () => {
  await using server = await startPolicyServer([askHelper, 'plain', 'own', 'done'])
  await rolloutOn(server).run(async () => {
    const helper = helperTool(async () => {
      await run(policyAgent(), 'inner')
      await run(policyAgent(), 'inner', { session: new OsmosisMemorySession({ name: 'sub' }) })
      return 'helped'
    })
    await runWith(helper)
  })
  expect(sampleIds(server)).toEqual(['main', 'main', 'sub', 'main'])
})

test('reading another session inside a tool does not move the run to it', async () => {
  await using server = await startPolicyServer([askHelper, 'inner', 'done'])
  await rolloutOn(server).run(async () => {
    const other = new OsmosisMemorySession({ name: 'other' })
    const helper = helperTool(async () => {
      await other.getItems()
      // A run without a session, in which another session is read before the policy is called.
      const peeking = policyAgent({
        instructions: async () => `known: ${(await other.getItems()).length}`,
      })
      await run(peeking, 'inner')
      return 'helped'
    })
    await runWith(helper)
  })
  expect(sampleIds(server)).toEqual(['main', 'main', 'main'])
})

test('a nested run that fails leaves the items of the outer sample alone', async () => {
  await using server = await startPolicyServer([
    askHelper,
    { toolCalls: [{ id: 'call-x', name: 'unknown', arguments: '{}' }] },
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const helper = helperTool(async () => {
      const inner = run(policyAgent(), 'inner', { toolNotFoundBehavior: 'raise_error' })
      await expect(inner).rejects.toThrow('unknown')
      return 'helped'
    })
    await runWith(helper)
  })
  expect(kindsOf(await sampleOf(rollout, 'main'))).toEqual([
    'user',
    'function_call',
    'function_call_result',
    'assistant',
  ])
})

test('a run that fails in a tool, behind a nested run, is a sample of its own words only', async () => {
  await using server = await startPolicyServer([askHelper, 'inner answer'])
  const rollout = rolloutOn(server)
  const failing = rollout.run(async () => {
    const helper = tool({
      name: 'helper',
      description: 'Helps, then breaks.',
      parameters: z.object({ input: z.string() }),
      errorFunction: null,
      execute: async () => {
        await run(policyAgent(), 'inner question')
        throw new RangeError('broken')
      },
    })
    const session = new OsmosisMemorySession({ name: 'main' })
    await run(policyAgent({ tools: [helper] }), 'go', { session })
  })
  await expect(failing).rejects.toThrow('broken')
  const { messages } = await sampleOf(rollout, 'main')
  expect(JSON.stringify(messages)).toContain('call-1')
  expect(JSON.stringify(messages)).not.toContain('inner')
})

test('handoffs stay in the run and its sample', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ id: 'call-1', name: 'transfer_to_billing', arguments: '{}' }] },
    'your bill',
  ])
  const rollout = rolloutOn(server)
  const result = await rollout.run(async () => {
    const billing = policyAgent({ name: 'billing', instructions: 'You bill.' })
    const triage = policyAgent({ name: 'triage', handoffs: [handoff(billing)] })
    return run(triage, 'go', { session: new OsmosisMemorySession({ name: 'main' }) })
  })
  expect(result.finalOutput).toBe('your bill')
  expect(result.lastAgent?.name).toBe('billing')
  expect(sampleIds(server)).toEqual(['main', 'main'])
  expect(messagesOf(server.requests[1])[0]).toEqual({ role: 'system', content: 'You bill.' })
  expect(kindsOf(await sampleOf(rollout, 'main'))).toHaveLength(4)
})
