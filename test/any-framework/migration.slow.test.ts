import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, printedBy } from '../kit/index.ts'
import { expect, it } from 'vitest'

const { answers, unchanged, printed } = calculatorMigration

it.each(['before', 'after'])(
  'the program of openai serves users %s the migration',
  async (when) => {
    await using server = await startPolicyServer(answers)
    const program = new URL(`migration/openai/${when}.ts`, import.meta.url)
    const env = { MODEL_BASE_URL: server.url, MODEL_API_KEY: 'key' }
    expect(await printedBy(program, env)).toEqual(printed)
    expect(server.requests[0]?.body).toMatchObject({ model: 'gpt-4.1', ...unchanged })
  },
)
