import { runExampleContract, showExamples } from '../../../test/kit/index.ts'
import { MultiplyGrader, MultiplyWorkflow } from './examples/multiply.ts'

runExampleContract({
  workflow: MultiplyWorkflow,
  grader: MultiplyGrader,
  sampleId: 'multiply-agent',
})
showExamples(import.meta.url, [['examples/multiply.ts', '../README.md']])
