import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, printedBy } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

const { answers, unchanged, printed } = calculatorMigration

it.each(['openai'])('the program of %s runs before the migration', async (framework) => {
  await using server = await startPolicyServer(answers)
  const program = new URL(`migration/${framework}/before.ts`, import.meta.url)
  const env = { MODEL_BASE_URL: server.url, MODEL_API_KEY: 'key' }
  expect(await printedBy(program, env)).toEqual(printed)
  expect(server.requests[0]?.body).toMatchObject({ model: 'gpt-4.1', ...unchanged })
})
