import { runMigrationContract } from '../../../test/kit/index.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  users: { tags: 'slow' },
  sampleId: 'main',
})
