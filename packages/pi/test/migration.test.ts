import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute, printedBy } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const { answers, unchanged, printed, prompt, label } = calculatorMigration

const programs: [when: string, program: URL][] = [
  ['before', new URL('migration/before.ts', import.meta.url)],
  ['after', new URL('migration/after.ts', import.meta.url)],
]

test.each(programs)('the program serves users %s the migration', async (_when, program) => {
  await using server = await startPolicyServer(answers)
  const env = { MODEL_BASE_URL: server.url, MODEL_API_KEY: 'key' }
  expect(await printedBy(program, env)).toEqual(printed)
  const { messages, ...settings } = unchanged
  const [instructions, { content: text }] = messages
  expect(server.requests[0]?.body).toMatchObject({
    model: 'gpt-4.1',
    ...settings,
    // Pi's own client sends each text as a part.
    messages: [instructions, { role: 'user', content: [{ type: 'text', text }] }],
  })
})

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer(answers)
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt,
    label,
    grader: MultiplyGrader,
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
