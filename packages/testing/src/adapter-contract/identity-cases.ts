import { errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import {
  expectEqual,
  expectMatch,
  expectRejection,
  expectRequests,
  expectThat,
} from '../contract-expectations.ts'
import { type PolicyServer, startPolicyServer } from '../policy-server.ts'
import type { ReceivedRequest } from '../received-request.ts'
import type { AdapterUnderTest, ContractCase, ContractRule } from './adapter-rules.ts'
import {
  addTool,
  contractKey,
  contractRollout,
  messagesOf,
  osmosisErrorIn,
  runWithRequests,
} from './contract-rollout.ts'

/** Which rollout and which sample a call belongs to. */
export const identityCases = {
  'carries-identity': async (adapter) => {
    await using server = await startPolicyServer([callAdd, 'done'], adapter)
    await runWithRequests(server, 2, contractRollout(server), async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
    )
    for (const { headers, body, path } of server.requests) {
      const { authorization } = headers
      expectEqual('the path of a request', path, '/v1/chat/completions')
      expectEqual('x-rollout-id of a request', headers['x-rollout-id'], 'rollout-1')
      expectEqual('x-sample-id of a request', headers['x-sample-id'], 'solver')
      expectEqual('authorization of a request', authorization, `Bearer ${contractKey}`)
      expectEqual('the model of a request', body['model'], 'osmosis-rollout')
      expectEqual('stream of a request', body['stream'], server.streams)
    }
  },

  'keeps-agents-apart': async (adapter) => {
    await using server = await startPolicyServer(answerOwnName, adapter)
    await contractRollout(server).run(async () => runPair(adapter, 'rollout-1'))
    expectNothingCrossed(server, 4)
  },

  'refuses-duplicates': async (adapter) => {
    await using server = await startPolicyServer([], adapter)
    const rollout = contractRollout(server)
    const constructTwice = rollout.run(async () => {
      await adapter.construct('solver')
      await adapter.construct('solver')
    })
    const error = await expectRejection('the second agent of this name', constructTwice)
    const isDuplicate = osmosisErrorIn(error)?.code === 'duplicate_sample'
    expectThat(isDuplicate, 'an error with the code duplicate_sample', error)
    expectMatch('the error message', errorMessage(error), /"solver"/)
  },

  'refuses-outside': async (adapter) => {
    const calling = (async () => adapter.callPlaceholder())()
    const error = await expectRejection('the placeholder', calling)
    const { code, message } = osmosisErrorIn(error) ?? {}
    const isRefusal = code === 'no_rollout_context' || code === 'placeholder_model'
    expectThat(isRefusal, 'the code no_rollout_context or placeholder_model', error)
    expectMatch('the error message', message, /inside AgentWorkflow\.run\(\)|placeholder/)
  },

  'serves-users': async (adapter) => {
    await using model = await startPolicyServer(['from the model'])
    await using server = await startPolicyServer(['from the policy'], adapter)
    const run = async (): Promise<string | undefined> =>
      adapter.runWithFallback?.({ name: 'solver', prompt: 'go' }, model.url)
    expectEqual('the text of a run outside of rollouts', await run(), 'from the model')
    const text = await contractRollout(server).run(run)
    expectEqual('the text of a run inside a rollout', text, 'from the policy')
    expectRequests(model, 1)
    expectRequests(server, 1)
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
    expectEqual('the texts of all runs', texts, expected)
    expectNothingCrossed(server, rollouts.length * 4)
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

function expectNothingCrossed(server: PolicyServer, expected: number): void {
  expectRequests(server, expected)
  for (const request of server.requests) {
    const { 'x-rollout-id': rolloutId, 'x-sample-id': sampleId } = request.headers
    const ids = `${String(rolloutId)}/${String(sampleId)}`
    expectEqual('rollout and sample of a request', ids, promptOf(messagesOf(request)))
  }
}

function promptOf(messages: readonly ChatMessage[]): string {
  const content = messages.find(({ role }) => role === 'user')?.content
  return typeof content === 'string' ? content : (content?.map(({ text }) => text).join('') ?? '')
}
