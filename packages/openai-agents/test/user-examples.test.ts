import type { AgentWorkflowClass } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import {
  execute,
  messagesOf,
  rewardsOf,
  runExampleContract,
  showExamples,
} from '../../../test/kit/index.ts'
import { OpenAIWorkflow } from './examples/assistant.ts'
import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'
import { config, Refunds } from './examples/refunds.ts'

test('the quick example answers the prompt', async () => {
  await using server = await startPolicyServer(['It is 408.'])
  const { workflow, grading } = await execute(server, OpenAIWorkflow, {
    prompt: [{ role: 'user', content: 'What is 12 times 34?' }],
    label: '408',
    grader: MultiplyGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(rewardsOf(grading)).toEqual({ assistant: 1 })
  expect(server.requests[0]?.body).toMatchObject({
    temperature: 1,
    max_tokens: 4096,
    messages: [
      { role: 'system', content: "Answer the user's request clearly." },
      { role: 'user', content: 'What is 12 times 34?' },
    ],
  })
})

test('the example of approvals answers each call, until the run has ended', async () => {
  const callOf = (order: string) => ({
    toolCalls: [{ id: order, name: 'refund', arguments: JSON.stringify({ order }) }],
  })
  await using server = await startPolicyServer([callOf('A-1'), callOf('B-2'), 'A-1 is paid back.'])
  const { workflow, samples } = await execute(server, Refunds as AgentWorkflowClass, {
    workflowConfig: config,
    metadata: { approved: ['A-1'] },
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  const results = messagesOf(server.requests.at(-1)).filter(({ role }) => role === 'tool')
  expect(results).toMatchObject([
    { tool_call_id: 'A-1', content: 'A-1 is paid back' },
    { tool_call_id: 'B-2', content: 'A manager refused this refund.' },
  ])
  expect(samples.get('refunds')?.calls).toHaveLength(3)
})

test('the example of approvals ends at its limit of model calls', async () => {
  const call = { toolCalls: [{ name: 'refund', arguments: '{"order":"B-2"}' }] }
  await using server = await startPolicyServer(() => call)
  const { samples } = await execute(server, Refunds as AgentWorkflowClass, {
    workflowConfig: config,
    metadata: { approved: [] },
  })
  expect(samples.get('refunds')?.extraFields).toMatchObject({ limit_reached: 'modelCalls' })
})

runExampleContract({
  workflow: MultiplyWorkflow,
  grader: MultiplyGrader,
  sampleId: 'multiply-agent',
})
showExamples(import.meta.url, [
  ['examples/multiply.ts', '../README.md'],
  ['examples/refunds.ts', '../../../docs/frameworks/openai-agents.md'],
])
