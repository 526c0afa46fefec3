import { isOsmosisError, lastAssistantText, type RolloutSample, toolCalls } from '@osmosis/core'
import type { GradingOutcome } from '@osmosis/protocol'

import { expectEqual, expectMatch, expectThat } from '../contract-expectations.ts'
import { fault } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import type { ContractCase, ContractRule } from './adapter-rules.ts'
import { addTool, contractRollout, executeRollout, runWithRequests } from './contract-rollout.ts'

/** An agent that called the policy is a sample, any other is not. */
export const sampleCases = {
  'gives-sample': async (adapter) => {
    await using server = await startPolicyServer(['done'], adapter)
    const rollout = contractRollout(server)
    await runWithRequests(server, 1, rollout, async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    const samples = await rollout.getSamples()
    expectEqual('the sample ids of the rollout', [...samples.keys()], ['solver'])
    expectEqual('the id of the sample', samples.get('solver')?.id, 'solver')
  },

  'lists-calls': async (adapter) => {
    await using server = await startPolicyServer([{ toolCalls: [call] }, 'done'], adapter)
    const { grading } = await executeRollout(server, async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
    )
    const sample = grading.samples.get('solver') as RolloutSample
    const added = { name: 'add', arguments: { a: 1, b: 2 } }
    const { trajectoryMessages, messages } = sample
    // Word for word in what the policy saw; frameworks may write the result in another way.
    expectEqual('the calls that the policy made', toolCalls({ messages, trajectoryMessages }), [
      { id: 'call-1', ...added, result: 'sum: 3' },
    ])
    const shown = toolCalls({ messages }).map(({ name, arguments: args }) => ({
      name,
      arguments: args,
    }))
    expectEqual('the calls in the messages of the framework', shown, [added])
    expectMatch('the result there', toolCalls({ messages })[0]?.result, /sum: 3/)
  },

  'omits-agents-without-calls': async (adapter) => {
    await using server = await startPolicyServer(['done'], adapter)
    const { grading } = await executeRollout(server, async () => {
      await adapter.construct('critic')
      await adapter.run({ name: 'solver', prompt: 'go' })
    })
    expectEqual('the status of the grading', grading.status, 'success')
    expectEqual('the graded samples', [...grading.samples.keys()], ['solver'])
  },

  'names-agents-without-calls': async (adapter) => {
    await using server = await startPolicyServer([], adapter)
    const { grading } = await executeRollout(server, async () => {
      await adapter.construct('solver')
      await adapter.construct('critic')
    })
    expectNoSamples(grading, /"solver", "critic".*`await`/)
  },

  'fails-unawaited-runs': async (adapter) => {
    await using server = await startPolicyServer(['done'], adapter)
    let left: Promise<unknown> = Promise.resolve()
    const { grading } = await executeRollout(server, async () => {
      left = Promise.allSettled([adapter.run({ name: 'solver', prompt: 'go' })])
    })
    await left
    expectAnsweredOrUngraded(grading)

    // In its second turn.
    const late = fault.on('done', { delayMs: 300 })
    await using slow = await startPolicyServer([{ toolCalls: [call] }, late], adapter)
    const { grading: second } = await executeRollout(slow, async () => {
      left = Promise.allSettled([adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] })])
      await slow.waitForRequest(1)
    })
    await left
    expectAnsweredOrUngraded(second)
  },
} satisfies Partial<Record<ContractRule, ContractCase>>

const call = { id: 'call-1', name: 'add', arguments: '{"a": 1, "b": 2}' }

/** A framework that reads every answer to its end may have it before the workflow is over. */
function expectAnsweredOrUngraded(grading: GradingOutcome): void {
  const sample = grading.samples.get('solver')
  if (sample) {
    expectEqual('the last text of the sample', lastAssistantText(sample), 'done')
    return
  }
  const { cause, message } = grading.failure ?? {}
  const isSaid = isOsmosisError(cause) && ['no_samples', 'rollout_ended'].includes(cause.code)
  expectThat(isSaid, 'the grading to fail with no_samples or rollout_ended', message)
  expectMatch('the failure message of the grading', message, /\bawait\b/)
}

function expectNoSamples({ failure, status }: GradingOutcome, message: RegExp): void {
  const { cause } = failure ?? {}
  const hasCode = isOsmosisError(cause) && cause.code === 'no_samples'
  expectThat(hasCode, 'the grading to fail with the code no_samples', failure?.message ?? status)
  expectMatch('the failure message of the grading', failure?.message, message)
}
