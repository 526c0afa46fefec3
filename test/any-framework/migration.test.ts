import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { Grader, lastAssistantText, type GraderContext } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { execute } from '@osmosis/testing/kit'
import { describe, expect, it } from 'vitest'

import { CalculatorWorkflow as LangGraphCalculator } from './migration/langgraph/after.ts'
import { CalculatorWorkflow as MastraCalculator } from './migration/mastra/after.ts'
import { CalculatorWorkflow as OpenAICalculator } from './migration/openai/after.ts'

const answers = [
  { toolCalls: [{ id: 'call-1', name: 'multiply', arguments: '{"a": 12.0,"b":34}' }] },
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

class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(lastAssistantText(ctx.sample).includes(ctx.label ?? '') ? 1 : 0)
  }
}

describe.each([
  { framework: 'openai', workflow: OpenAICalculator },
  { framework: 'langgraph', workflow: LangGraphCalculator },
  { framework: 'mastra', workflow: MastraCalculator },
])('the program of $framework', ({ framework, workflow: calculator }) => {
  it('runs before the migration', async () => {
    await using server = await startPolicyServer(answers)
    const program = fileURLToPath(new URL(`migration/${framework}/before.ts`, import.meta.url))
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [program], {
      env: { MODEL_BASE_URL: server.url, MODEL_API_KEY: 'key' },
    })
    expect({ stdout, stderr }).toEqual({ stdout: '12 times 34 is 408.\n', stderr: '' })
    expect(server.requests[0]?.body).toMatchObject({ model: 'gpt-4.1', ...unchanged })
  })

  it('runs as a rollout after the migration', async () => {
    await using server = await startPolicyServer(answers)
    const { workflow, grading } = await execute(server, calculator, {
      prompt: [{ role: 'user', content: 'What is 12 times 34?' }],
      label: '408',
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
})
