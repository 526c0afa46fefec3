import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute, printedBy } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'
import { isNewestFramework } from './running-framework.ts'

const { answers, unchanged, printed, prompt, label } = calculatorMigration

const programs: [when: string, program: URL][] = [
  ['before', new URL('migration/before.ts', import.meta.url)],
  ['after', new URL('migration/after.ts', import.meta.url)],
]

// A child process resolves packages by itself, so this is about one version only.
test.runIf(isNewestFramework).each(programs)(
  'the program serves users %s the migration',
  async (_when, program) => {
    await using server = await startPolicyServer(answers)
    const env = { MODEL_BASE_URL: server.url, MODEL_API_KEY: 'key' }
    expect(await printedBy(program, env)).toEqual(printed)
    // LangChain's own model sends the text of the system message in a list.
    const [system, question] = unchanged.messages
    const listed = { ...system, content: [{ type: 'text', text: system.content }] }
    expect(server.requests[0]?.body).toMatchObject({
      model: 'gpt-4.1',
      ...unchanged,
      messages: [listed, question],
    })
  },
)

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer(answers)
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt,
    label,
    grader: MultiplyGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(grading?.samples.get('calculator')?.reward).toBe(1)
  expect(server.requests[0]?.body).toMatchObject({ model: 'osmosis-rollout', ...unchanged })
})
