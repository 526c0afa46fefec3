import { calculatorRequest, printedBy, runMigrationContract } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { startBedrockEndpoint } from './bedrock-endpoint.ts'
import { MathGrader } from './examples/calculator.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [system, question] = calculatorRequest.messages

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MathGrader,
  async serveUser(program) {
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
    const { stdout, stderr } = await printedBy(program, env)
    expect(stderr).toBe('')
    expect(bedrock.requests[0]).toMatchObject({
      inferenceConfig: { temperature: 1, maxTokens: 4096 },
      system: [{ text: system.content }],
      messages: [{ role: 'user', content: [{ text: question.content }] }],
      toolConfig: { tools: [{ toolSpec: { name: 'multiply' } }] },
    })
    return stdout
  },
})
