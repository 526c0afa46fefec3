import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import {
  execute,
  rewardsOf,
  runExampleContract,
  sampleIds,
  showExamples,
} from '../../../test/kit/index.ts'
import { DraftWorkflow } from './examples/functions.ts'
import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'

runExampleContract({
  workflow: MultiplyWorkflow,
  grader: MultiplyGrader,
  sampleId: 'multiply-agent',
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

showExamples(import.meta.url, [
  ['examples/multiply.ts', '../README.md'],
  ['examples/functions.ts', '../../../docs/frameworks/ai-sdk.md'],
])
