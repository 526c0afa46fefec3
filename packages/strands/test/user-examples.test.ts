import { readFileSync } from 'node:fs'

import type { AgentWorkflowClass } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { execute, messagesOf, rewardsOf } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { MathAgentWorkflow, MathGrader } from './examples/calculator.ts'
import { SearchWorkflow } from './examples/search.ts'
import { ToolWorkflow, toolWorkflowConfig } from './examples/tool-loop.ts'
import { kindsOf } from './rollout.ts'

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

test.each([
  ['right', '12 times 34 is 408.', 1],
  ['wrong', '12 times 34 is 400.', 0],
])('the complete example rewards a %s answer', async (_verdict, answer, reward) => {
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'multiply', arguments: '{"a": 12, "b": 34}' }] },
    answer,
  ])
  const { workflow, grading } = await execute(server, MathAgentWorkflow, {
    prompt,
    label: '408',
    grader: MathGrader,
  })
  expect(workflow.failure).toBeNull()
  expect(rewardsOf(grading)).toEqual({ 'math-agent': reward })
  const sample = grading?.samples.get('math-agent')
  expect(kindsOf(sample?.messages ?? [])).toEqual([
    'system:text',
    'user:text',
    'assistant:toolUse',
    'user:toolResult',
    'assistant:text',
  ])
  expect(sample?.trajectoryMessages?.at(-2)).toMatchObject({ role: 'tool', content: '408' })
})

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

test('the README shows the complete example as it is run here', () => {
  const example = readFileSync(new URL('examples/calculator.ts', import.meta.url), 'utf8')
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\`\n`)
})
