import { runMigrationContract } from '../../../test/kit/index.ts'

import { CalculatorGrader } from './examples/scored.ts'
import { CalculatorWorkflow } from './migration/after.ts'

runMigrationContract({
  folder: new URL('migration/', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: CalculatorGrader,
})
