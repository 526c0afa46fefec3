import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import OpenAI from 'openai'
import { z } from 'zod'

const numbers = z.object({ a: z.number(), b: z.number() })
const multiply: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'multiply',
    description: 'Multiply two numbers.',
    parameters: z.toJSONSchema(numbers),
  },
}

function execute(call: OpenAI.ChatCompletionMessageToolCall): string {
  if (call.type !== 'function') return 'There is no such tool.'
  try {
    const { a, b } = numbers.parse(JSON.parse(call.function.arguments))
    return String(a * b)
  } catch (error) {
    return String(error)
  }
}

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('multiply-agent')
    const client = new OpenAI({
      baseURL: policy.baseUrl,
      apiKey: 'unused',
      fetch: policy.fetch,
      maxRetries: 0,
      timeout: 2 ** 31 - 1,
    })
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'system', content: 'Use the multiply tool when arithmetic is required.' },
      ...ctx.prompt,
    ]
    for (let turn = 0; turn < 8; turn += 1) {
      const { choices } = await client.chat.completions.create({
        model: 'policy',
        messages,
        tools: [multiply],
        temperature: 1,
        top_p: 1,
        max_tokens: 4096,
      })
      const message = choices[0]?.message
      if (!message?.tool_calls?.length) return
      messages.push(message)
      for (const call of message.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: call.id, content: execute(call) })
      }
    }
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      const [, answer = ''] = /####\s*([-+]?\d*\.?\d+)/.exec(lastAssistantText(sample)) ?? []
      const error = Math.abs(parseFloat(answer) - parseFloat(ctx.requireLabel()))
      ctx.setSampleReward(sampleId, error < 0.01 ? 1 : 0)
    }
  }
}
