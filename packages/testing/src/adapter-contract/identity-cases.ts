import { errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { recordOf } from '@osmosis/core/workflow'

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

  'stays-in-its-rollout': async (adapter) => {
    await using server = await startPolicyServer(() => 'said', adapter)
    const [first, second] = ['rollout-1', 'rollout-2'].map((id) => contractRollout(server, id))
    const make = (): (() => Promise<unknown>) | undefined => adapter.prepare?.('solver')
    const start = first?.run(make)
    await second?.run(async () => {
      // As the workflow of each rollout does that a queue at the top of a file serves.
      make()
      // Some frameworks throw, and others make a message or an event of an error.
      await start?.().catch(() => {})
    })
    expectRequests(server, 0)
    const unnoticed = async (): Promise<void> => first && recordOf(first).throwUnnoticedError()
    const error = await expectRejection('the rollout that made the agent', unnoticed())
    const { code, message } = osmosisErrorIn(error) ?? {}
    expectEqual('the code of its error', code, 'wrong_rollout_context')
    expectMatch('the error message', message, /"rollout-1".*"rollout-2".*AsyncResource\.bind/)
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

  'sends-equal-requests': async (adapter) => {
    const result = 'the sum is three'
    const called = { toolCalls: [{ id: 'call_1', name: 'add', arguments: { a: 1, b: 2 } }] }
    await using model = await startPolicyServer(({ rawBody }) =>
      rawBody.includes(result) ? 'done' : called,
    )
    const run = { name: 'solver', prompt: 'go', tools: [{ ...addTool, execute: () => result }] }
    const sent = (): object[] =>
      model.requests.map(({ path, body, headers }) => ({
        path,
        body,
        authorization: headers.authorization,
      }))
    await adapter.runOwnModel?.(run, model.url)
    const own = sent()
    expectEqual('the number of requests with the model alone', own.length, 2)
    await adapter.runWithFallback?.(run, model.url)
    expectEqual('the requests with the model as a fallback', sent().slice(own.length), own)
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
