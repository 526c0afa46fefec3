import { calculatorRequest, runMigrationContract } from '../../../test/kit/index.ts'

import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [instructions, { role, content: text }] = calculatorRequest.messages

runMigrationContract({
  folder: new URL('migration/', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  // Pi's own client sends each text as a part.
  userRequest: { messages: [instructions, { role, content: [{ type: 'text', text }] }] },
})
