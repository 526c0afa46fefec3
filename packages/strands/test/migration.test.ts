import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute, printedBy } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { startBedrockEndpoint } from './bedrock-endpoint.ts'
import { MathGrader } from './examples/calculator.ts'
import { CalculatorWorkflow } from './migration/after.ts'
import { isNewestSdk } from './running-sdk.ts'

const { answers, unchanged, printed, prompt, label } = calculatorMigration
const [system, question] = unchanged.messages

const programs: [when: string, program: URL][] = [
  ['before', new URL('migration/before.ts', import.meta.url)],
  ['after', new URL('migration/after.ts', import.meta.url)],
]

// A child process resolves `@strands-agents/sdk` by itself, so this is about one version only.
test.runIf(isNewestSdk).each(programs)(
  'the program serves users %s the migration',
  async (_when, program) => {
    const start = { toolUse: { toolUseId: 'call-1', name: 'multiply' } }
    await using bedrock = await startBedrockEndpoint([
      [
        ['messageStart', { role: 'assistant' }],
        ['contentBlockStart', { contentBlockIndex: 0, start }],
        [
          'contentBlockDelta',
          { contentBlockIndex: 0, delta: { toolUse: { input: '{"a":12,"b":34}' } } },
        ],
        ['contentBlockStop', { contentBlockIndex: 0 }],
        ['messageStop', { stopReason: 'tool_use' }],
      ],
      [
        ['messageStart', { role: 'assistant' }],
        ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: '12 times 34 is 408.' } }],
        ['contentBlockStop', { contentBlockIndex: 0 }],
        ['messageStop', { stopReason: 'end_turn' }],
      ],
    ])
    const env = {
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: bedrock.url,
      AWS_REGION: 'us-west-2',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    }
    expect(await printedBy(program, env)).toEqual(printed)
    expect(bedrock.requests[0]).toMatchObject({
      inferenceConfig: { temperature: 1, maxTokens: 4096 },
      system: [{ text: system.content }],
      messages: [{ role: 'user', content: [{ text: question.content }] }],
      toolConfig: { tools: [{ toolSpec: { name: 'multiply' } }] },
    })
  },
)

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer(answers)
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt,
    label,
    grader: MathGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(grading?.samples.get('calculator')?.reward).toBe(1)
  expect(server.requests[0]?.body).toMatchObject({ model: 'osmosis-rollout', ...unchanged })
})
