import { runMigrationContract } from '../../../test/kit/index.ts'

import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

runMigrationContract({
  folder: new URL('migration/', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  sampleId: 'main',
})
