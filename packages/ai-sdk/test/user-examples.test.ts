import { readFileSync } from 'node:fs'

import { startPolicyServer } from '@osmosis/testing'
import { execute, rewardsOf, sampleIds } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { DraftWorkflow } from './examples/functions.ts'
import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'
import { rolesOf } from './rollout.ts'

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
  expect(sample && rolesOf(sample)).toEqual([
    'system',
    'system',
    'user',
    'assistant',
    'tool',
    'assistant',
  ])
  expect(sample?.trajectoryMessages?.at(-2)).toMatchObject({ role: 'tool', content: '408' })
})

test('the example without an agent makes two samples', async () => {
  await using server = await startPolicyServer(['A draft.', 'Fine.'])
  const { workflow, grading } = await execute(server, DraftWorkflow, {
    prompt: [
      { role: 'system', content: 'You write.' },
      { role: 'user', content: 'Go.' },
    ],
    label: '408',
    grader: MultiplyGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(rewardsOf(grading)).toEqual({ writer: 0, reviewer: 0 })
  expect(sampleIds(server)).toEqual(['writer', 'reviewer'])
})

test.each([
  ['multiply.ts', '../README.md'],
  ['functions.ts', '../../../docs/frameworks/ai-sdk.md'],
])('%s, which is run here, is shown in %s', (file, document) => {
  const example = readFileSync(new URL(`examples/${file}`, import.meta.url), 'utf8')
  expect(readFileSync(new URL(document, import.meta.url), 'utf8')).toContain(
    `\`\`\`ts\n${example}\`\`\`\n`,
  )
})
