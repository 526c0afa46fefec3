import { startPolicyServer } from '@osmosis/testing'
import { execute, rewardsOf, runExampleContract, showExamples } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { OpenAIWorkflow } from './examples/assistant.ts'
import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'

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

runExampleContract({
  workflow: MultiplyWorkflow,
  grader: MultiplyGrader,
  sampleId: 'multiply-agent',
})
showExamples(import.meta.url, [['examples/multiply.ts', '../README.md']])
