import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { startPolicyServer } from '@osmosis/testing'
import { execute } from '@osmosis/testing/kit'
import { expect, test } from 'vitest'

import { CalculatorWorkflow } from './migration/after.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { isNewestSdk } from './running-sdk.ts'

const answers = [
  { toolCalls: [{ id: 'call-1', name: 'multiply', arguments: '{"a":12,"b":34}' }] },
  '12 times 34 is 408.',
] as const

/** The part of a request that the migration must not change. */
const unchanged = {
  temperature: 1,
  max_tokens: 4096,
  messages: [
    { role: 'system', content: 'Use the multiply tool when arithmetic is required.' },
    { role: 'user', content: 'What is 12 times 34?' },
  ],
  tools: [{ type: 'function', function: { name: 'multiply' } }],
}

// A child process resolves `@openai/agents` by itself, so this is about one version only.
test.runIf(isNewestSdk)('the program runs before the migration', async () => {
  await using server = await startPolicyServer(answers)
  const program = fileURLToPath(new URL('migration/before.ts', import.meta.url))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program], {
    env: {
      OPENAI_BASE_URL: server.url,
      OPENAI_API_KEY: 'sk-test',
      OPENAI_AGENTS_DISABLE_TRACING: '1',
    },
  })
  expect({ stdout, stderr }).toEqual({ stdout: '12 times 34 is 408.\n', stderr: '' })
  expect(server.requests[0]?.body).toMatchObject({ model: 'gpt-4.1', ...unchanged })
})

test('the program runs as a rollout after the migration', async () => {
  await using server = await startPolicyServer(answers)
  const { workflow, grading } = await execute(server, CalculatorWorkflow, {
    prompt: [{ role: 'user', content: 'What is 12 times 34?' }],
    label: '408',
    grader: MultiplyGrader,
  })
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(grading?.samples.get('main')?.reward).toBe(1)
  expect(server.requests[0]?.body).toMatchObject({ model: 'osmosis-rollout', ...unchanged })
})
