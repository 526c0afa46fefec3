import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute, printedBy } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { MultiplyGrader } from './examples/multiply.ts'
import { startGeminiEndpoint } from './gemini-endpoint.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const { answers, unchanged, printed, prompt, label } = calculatorMigration

const programs: [when: string, program: URL][] = [
  ['before', new URL('migration/before.ts', import.meta.url)],
  ['after', new URL('migration/after.ts', import.meta.url)],
]

test.each(programs)('the program serves users %s the migration', async (_when, program) => {
  await using gemini = await startGeminiEndpoint([
    [{ functionCall: { id: 'call-1', name: 'multiply', args: { a: 12, b: 34 } } }],
    [{ text: '12 times 34 is 408.' }],
  ])
  const env = { GOOGLE_GEMINI_BASE_URL: gemini.url, GEMINI_API_KEY: 'key' }
  // The ADK logs its requests there as well.
  expect((await printedBy(program, env)).stdout.endsWith(printed.stdout)).toBe(true)
  expect(gemini.requests).toHaveLength(2)
})

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer(answers)
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt,
    label,
    grader: MultiplyGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(grading?.samples.get('calculator')?.reward).toBe(1)
  const [system, question] = unchanged.messages
  expect(server.requests[0]?.body).toMatchObject({
    model: 'osmosis-rollout',
    ...unchanged,
    // The ADK adds the name of the agent.
    messages: [{ role: 'system', content: expect.stringContaining(system.content) }, question],
  })
})
