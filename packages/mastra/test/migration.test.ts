import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute, printedBy } from '@osmosis/testing/kit'
import { expect, test } from 'vitest'

import { CalculatorGrader } from './examples/scored.ts'
import { CalculatorWorkflow } from './migration/after.ts'
import { isNewestMastra } from './running-mastra.ts'

const { answers, unchanged, printed, prompt, label } = calculatorMigration

// A child process resolves `@mastra/core` by itself, so this is about one version only.
test.runIf(isNewestMastra).each(['before', 'after'])(
  'the program serves users %s the migration',
  async (when) => {
    await using server = await startPolicyServer(answers)
    const program = new URL(`migration/${when}.ts`, import.meta.url)
    const env = { MODEL_BASE_URL: server.url, MODEL_API_KEY: 'key' }
    expect(await printedBy(program, env)).toEqual(printed)
    expect(server.requests[0]?.body).toMatchObject({ model: 'gpt-4.1', ...unchanged })
  },
)

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer(answers)
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt,
    label,
    grader: CalculatorGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  const sample = grading?.samples.get('calculator')
  expect(sample?.reward).toBe(1)
  expect(sample?.trajectoryMessages).toMatchObject([
    ...unchanged.messages,
    { role: 'assistant', tool_calls: [{ function: { arguments: '{"a": 12.0,"b":34}' } }] },
    { role: 'tool', tool_call_id: 'call-1', content: '408' },
    { role: 'assistant', content: '12 times 34 is 408.' },
  ])
  expect(sample?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true])
  expect(server.requests[0]?.body).toMatchObject({ model: 'osmosis-rollout', ...unchanged })
})
