import { calculatorRequest, runMigrationContract } from '../../../test/kit/index.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [instructions, { role, content: text }] = calculatorRequest.messages

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  users: { tags: 'slow' },
  // Pi's own client sends each text as a part.
  userRequest: { messages: [instructions, { role, content: [{ type: 'text', text }] }] },
})
