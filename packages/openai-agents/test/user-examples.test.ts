import { readFileSync } from 'node:fs'

import { startPolicyServer } from '@osmosis/testing'
import { execute, rewardsOf } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { OpenAIWorkflow } from './examples/assistant.ts'
import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'
import { kindsOf } from './rollout.ts'

test('the quick example answers the prompt', async () => {
  await using server = await startPolicyServer(['Paris.'])
  const { workflow, grading } = await execute(server, OpenAIWorkflow, {
    prompt: [{ role: 'user', content: 'What is the capital of France?' }],
    label: 'Paris',
    grader: MultiplyGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(rewardsOf(grading)).toEqual({ assistant: 1 })
  expect(server.requests[0]?.body).toMatchObject({
    temperature: 1,
    max_tokens: 4096,
    messages: [
      { role: 'system', content: "Answer the user's request clearly." },
      { role: 'user', content: 'What is the capital of France?' },
    ],
  })
})

test.each([
  ['right', '12 times 34 is 408.', 1],
  ['wrong', '12 times 34 is 400.', 0],
])('the complete example rewards a %s answer', async (_verdict, answer, reward) => {
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'multiply', arguments: '{"a": 12, "b": 34}' }] },
    answer,
  ])
  const { workflow, grading } = await execute(server, MultiplyWorkflow, {
    prompt: [
      { role: 'system', content: 'Be exact.' },
      { role: 'user', content: 'What is 12 times 34?' },
    ],
    label: '408',
    grader: MultiplyGrader,
  })
  expect(workflow.failure).toBeNull()
  expect(rewardsOf(grading)).toEqual({ 'multiply-agent': reward })
  const sample = grading?.samples.get('multiply-agent')
  expect(sample && kindsOf(sample)).toEqual([
    'system',
    'user',
    'function_call',
    'function_call_result',
    'assistant',
  ])
  expect(sample?.trajectoryMessages?.at(-2)).toMatchObject({ role: 'tool', content: '408' })
})

test('the README shows the complete example as it is run here', () => {
  const example = readFileSync(new URL('examples/multiply.ts', import.meta.url), 'utf8')
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\`\n`)
})
