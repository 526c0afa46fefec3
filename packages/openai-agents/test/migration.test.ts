import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute, printedBy } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { CalculatorWorkflow } from './migration/after.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { isNewestSdk } from './running-sdk.ts'

const { answers, unchanged, printed, prompt, label } = calculatorMigration

const programs: [when: string, program: URL][] = [
  ['before', new URL('migration/before.ts', import.meta.url)],
  ['after', new URL('migration/after.ts', import.meta.url)],
]

// A child process resolves `@openai/agents` by itself, so this is about one version only.
test.runIf(isNewestSdk).each(programs)(
  'the program serves users %s the migration',
  async (_when, program) => {
    await using server = await startPolicyServer(answers)
    expect(
      await printedBy(program, {
        OPENAI_BASE_URL: server.url,
        OPENAI_API_KEY: 'sk-test',
        OPENAI_AGENTS_DISABLE_TRACING: '1',
      }),
    ).toEqual(printed)
    expect(server.requests[0]?.body).toMatchObject({ model: 'gpt-4.1', ...unchanged })
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
  expect(grading?.samples.get('main')?.reward).toBe(1)
  expect(server.requests[0]?.body).toMatchObject({ model: 'osmosis-rollout', ...unchanged })
})
