import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { startPolicyServer } from '@osmosis/testing'
import { execute } from '@osmosis/testing/kit'
import { expect, test } from 'vitest'

import { startBedrockEndpoint } from './bedrock-endpoint.ts'
import { MathGrader } from './examples/calculator.ts'
import { CalculatorWorkflow } from './migration/after.ts'
import { isNewestSdk } from './running-sdk.ts'

const question = 'What is 12 times 34?'
const systemPrompt = 'Use the multiply tool when arithmetic is required.'

// A child process resolves `@strands-agents/sdk` by itself, so this is about one version only.
test.runIf(isNewestSdk)('the program runs before the migration', async () => {
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
  const program = fileURLToPath(new URL('migration/before.ts', import.meta.url))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program], {
    env: {
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: bedrock.url,
      AWS_REGION: 'us-west-2',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    },
  })
  expect({ stdout, stderr }).toEqual({ stdout: '12 times 34 is 408.\n', stderr: '' })
  expect(bedrock.requests[0]).toMatchObject({
    inferenceConfig: { temperature: 1, maxTokens: 4096 },
    system: [{ text: systemPrompt }],
    messages: [{ role: 'user', content: [{ text: question }] }],
    toolConfig: { tools: [{ toolSpec: { name: 'multiply' } }] },
  })
})

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ id: 'call-1', name: 'multiply', arguments: '{"a":12,"b":34}' }] },
    '12 times 34 is 408.',
  ])
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt: [{ role: 'user', content: question }],
    label: '408',
    grader: MathGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(grading?.samples.get('calculator')?.reward).toBe(1)
  expect(server.requests[0]?.body).toMatchObject({
    model: 'osmosis-rollout',
    temperature: 1,
    max_tokens: 4096,
    messages: [
      { role: 'system', content: systemPrompt },
      { role: 'user', content: question },
    ],
    tools: [{ type: 'function', function: { name: 'multiply' } }],
  })
})
