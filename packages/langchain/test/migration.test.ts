import { calculatorRequest, runMigrationContract } from '../../../test/kit/index.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [{ role, content: text }, question] = calculatorRequest.messages

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  users: { tags: 'slow' },
  // LangChain's own model sends the text of the system message in a list.
  userRequest: { messages: [{ role, content: [{ type: 'text', text }] }, question] },
})
