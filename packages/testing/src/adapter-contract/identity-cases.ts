import assert from 'node:assert/strict'

import type { ChatMessage } from '@osmosis/core/policy'

import { startPolicyServer } from '../policy-server.ts'
import type { ReceivedRequest } from '../received-request.ts'
import type { AdapterUnderTest, ContractCase } from './adapter-under-test.ts'
import {
  addTool,
  contractKey,
  contractRollout,
  messagesOf,
  osmosisErrorIn,
} from './contract-rollout.ts'
import type { ContractRule } from './contract-rules.ts'

/** Which rollout and which sample a call belongs to. */
export const identityCases = {
  'gives-sample': async (adapter) => {
    await using server = await startPolicyServer(['done'], adapter)
    const rollout = contractRollout(server)
    await rollout.run(async () => adapter.run({ name: 'solver', prompt: 'go' }))
    const samples = await rollout.getSamples()
    assert.deepEqual([...samples.keys()], ['solver'])
    assert.equal(samples.get('solver')?.id, 'solver')
  },

  'carries-identity': async (adapter) => {
    await using server = await startPolicyServer([callAdd, 'done'], adapter)
    await contractRollout(server).run(async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
    )
    assert.equal(server.requests.length, 2)
    for (const { headers, body, path } of server.requests) {
      assert.equal(path, '/v1/chat/completions')
      assert.equal(headers['x-rollout-id'], 'rollout-1')
      assert.equal(headers['x-sample-id'], 'solver')
      assert.equal(headers['authorization'], `Bearer ${contractKey}`)
      assert.equal(body['model'], 'osmosis-rollout')
      assert.equal(body['stream'], server.streams)
    }
  },

  'keeps-agents-apart': async (adapter) => {
    await using server = await startPolicyServer(answerOwnName, adapter)
    await contractRollout(server).run(async () => runPair(adapter, 'rollout-1'))
    assertNothingCrossed(server.requests, 4)
  },

  'refuses-duplicates': async (adapter) => {
    await using server = await startPolicyServer([], adapter)
    const rollout = contractRollout(server)
    const constructTwice = rollout.run(async () => {
      await adapter.construct('solver')
      await adapter.construct('solver')
    })
    await assert.rejects(constructTwice, (error: Error) => {
      assert.equal(osmosisErrorIn(error)?.code, 'duplicate_sample')
      assert.match(error.message, /"solver"/)
      return true
    })
  },

  'refuses-outside': async (adapter) => {
    await assert.rejects(
      async () => adapter.callPlaceholder(),
      (error: unknown) => {
        const { code, message = '' } = osmosisErrorIn(error) ?? {}
        assert.ok(code === 'no_rollout_context' || code === 'placeholder_model', String(error))
        assert.match(message, /inside AgentWorkflow\.run\(\)|placeholder/)
        return true
      },
    )
  },

  'never-crosses': async (adapter) => {
    await using server = await startPolicyServer(answerOwnName, adapter)
    const rollouts = Array.from(
      { length: adapter.concurrentRollouts ?? 400 },
      (_, index) => `rollout-${index}`,
    )
    const texts = await Promise.all(
      rollouts.map(async (rolloutId) =>
        contractRollout(server, rolloutId).run(async () => runPair(adapter, rolloutId)),
      ),
    )
    const expected = rollouts.map((id) => [`${id}/planner`, `${id}/executor`])
    assert.deepEqual(texts, expected)
    assertNothingCrossed(server.requests, rollouts.length * 4)
  },
} satisfies Partial<Record<ContractRule, ContractCase>>

const callAdd = { toolCalls: [{ name: 'add', arguments: { a: 1, b: 2 } }] }

async function runPair(adapter: AdapterUnderTest, rolloutId: string): Promise<string[]> {
  return Promise.all(
    ['planner', 'executor'].map(async (name) =>
      adapter.run({ name, prompt: `${rolloutId}/${name}`, tools: [addTool] }),
    ),
  )
}

/** One tool call, then what the prompt was. */
function answerOwnName(request: ReceivedRequest): typeof callAdd | string {
  const messages = messagesOf(request)
  return messages.some(({ role }) => role === 'tool') ? promptOf(messages) : callAdd
}

function assertNothingCrossed(requests: readonly ReceivedRequest[], expected: number): void {
  assert.equal(requests.length, expected)
  for (const request of requests) {
    const { 'x-rollout-id': rolloutId, 'x-sample-id': sampleId } = request.headers
    assert.equal(`${String(rolloutId)}/${String(sampleId)}`, promptOf(messagesOf(request)))
  }
}

function promptOf(messages: readonly ChatMessage[]): string {
  const content = messages.find(({ role }) => role === 'user')?.content
  return typeof content === 'string' ? content : (content?.map(({ text }) => text).join('') ?? '')
}
