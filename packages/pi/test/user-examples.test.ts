import { readFileSync } from 'node:fs'

import { startPolicyServer } from '@osmosis/testing'
import { execute, rewardsOf } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'

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
  const { trajectoryMessages } = grading?.samples.get('multiply-agent') ?? {}
  expect(trajectoryMessages?.map(({ role }) => role)).toEqual([
    'system',
    'system',
    'user',
    'assistant',
    'tool',
    'assistant',
  ])
})

test('the example is shown in the README', () => {
  const example = readFileSync(new URL('examples/multiply.ts', import.meta.url), 'utf8')
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\`\n`)
})
