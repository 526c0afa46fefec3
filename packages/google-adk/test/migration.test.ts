import { calculatorRequest, printedBy, runMigrationContract } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { MultiplyGrader } from './examples/multiply.ts'
import { startGeminiEndpoint } from './gemini-endpoint.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [system, question] = calculatorRequest.messages

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  // The ADK adds the name of the agent.
  policyRequest: {
    messages: [{ role: 'system', content: expect.stringContaining(system.content) }, question],
  },
  async serveUser(program) {
    await using gemini = await startGeminiEndpoint([
      [{ functionCall: { id: 'call-1', name: 'multiply', args: { a: 12, b: 34 } } }],
      [{ text: '12 times 34 is 408.' }],
    ])
    const env = { GOOGLE_GEMINI_BASE_URL: gemini.url, GEMINI_API_KEY: 'key' }
    const { stdout } = await printedBy(program, env)
    expect(gemini.requests).toHaveLength(2)
    return stdout
  },
})
