import type { AgentWorkflowClass } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { execute, messagesOf, runExampleContract, showExamples } from '../../../test/kit/index.ts'
import { MathAgentWorkflow, MathGrader } from './examples/calculator.ts'
import { SearchWorkflow } from './examples/search.ts'
import { ToolWorkflow, toolWorkflowConfig } from './examples/tool-loop.ts'

const prompt = [
  { role: 'system', content: 'Be exact.' },
  { role: 'user', content: 'What is 12 times 34?' },
]

test('the quick example answers the prompt with a tool', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'search', arguments: '{"query": "France"}' }] },
    'Paris.',
  ])
  const { workflow } = await execute(server, SearchWorkflow, { prompt })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(server.requests[0]?.body).toMatchObject({
    temperature: 1,
    messages: [
      { role: 'system', content: 'You are a helpful assistant.\n\nBe exact.' },
      { role: 'user', content: 'What is 12 times 34?' },
    ],
  })
  expect(messagesOf(server.requests[1]).at(-1)?.content).toBe('Results for: France')
})

runExampleContract({ workflow: MathAgentWorkflow, grader: MathGrader, sampleId: 'math-agent' })

test('the loop that invokes its agent again ends as soon as the policy calls no tool', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'search', arguments: '{"query": "x"}' }] },
    'found',
  ])
  const { workflow } = await execute(server, ToolWorkflow as AgentWorkflowClass, {
    prompt,
    workflowConfig: toolWorkflowConfig,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(server.requests.map(({ body }) => body['temperature'])).toEqual([1, 1])
})

showExamples(import.meta.url, [['examples/calculator.ts', '../README.md']])
