import {
  createToolErrorResult,
  createToolResult,
  defineReward,
  executeToolCalls,
  functionTool,
  getLastAssistantContent,
  getToolCallInfo,
  RolloutAgentLoop,
  serializeToolResult,
  type RolloutContext,
  type RolloutRequest,
  type RolloutResult,
  type ToolInput,
  type ToolResultMessage,
} from '@osmosis/agent-loop'
import { z } from 'zod'

const operands = z.object({ a: z.number(), b: z.number() })

const functions: Record<string, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  multiply: (a, b) => Math.round(a * b * 10_000) / 10_000,
}

const tools = [
  functionTool({ name: 'add', description: 'Add two numbers.', parameters: operands }),
  functionTool({ name: 'multiply', description: 'Multiply two numbers.', parameters: operands }),
]

/** Never throws, because errors are returned to the policy. */
function executeTool(toolCall: unknown): ToolResultMessage {
  let toolCallId = 'unknown'
  try {
    const call = getToolCallInfo(toolCall)
    toolCallId = call.toolCallId
    const calculate = functions[call.name]
    if (!calculate) return createToolErrorResult(toolCallId, `Unknown tool: ${call.name}`)
    const { a, b } = operands.parse(call.args)
    return createToolResult(toolCallId, serializeToolResult(calculate(a, b)))
  } catch (error) {
    return createToolErrorResult(toolCallId, error instanceof Error ? error.message : 'failed')
  }
}

const computeReward = defineReward((solution, groundTruth) => {
  const [, answer = ''] = /####\s*([-+]?\d*\.?\d+)/.exec(solution) ?? []
  return Math.abs(parseFloat(answer) - parseFloat(groundTruth)) < 0.01 ? 1 : 0
})

export class CalculatorAgent extends RolloutAgentLoop {
  readonly name = 'calculator'

  getTools(_request: RolloutRequest): ToolInput[] {
    return tools
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    const { request } = ctx
    const messages = [...request.messages]
    let finishReason = 'max_turns'
    let totalTokens = 0

    for (let turn = 0; turn < request.maxTurns; turn += 1) {
      ctx.logEvent('pre_llm', { turn, numMessages: messages.length })
      const result = await ctx.chat(messages, request.completionParams)
      messages.push(result.message)

      totalTokens += result.usage.completion_tokens ?? 0
      if (totalTokens >= request.maxTokensTotal) {
        finishReason = 'max_tokens'
        break
      }
      if (!result.hasToolCalls) {
        finishReason = result.finishReason ?? 'stop'
        break
      }

      const started = performance.now()
      messages.push(...(await executeToolCalls(result.toolCalls, executeTool)))
      const latencyMs = (performance.now() - started) / result.toolCalls.length
      for (const _ of result.toolCalls) ctx.recordToolCall({ latencyMs })
      ctx.logEvent('tools_executed', { turn, numTools: result.toolCalls.length })
    }

    const groundTruth = request.metadata['ground_truth']
    const reward =
      typeof groundTruth === 'string'
        ? computeReward(getLastAssistantContent(messages) ?? '', groundTruth)
        : null
    ctx.logEvent('rollout_complete', { finishReason, reward })
    return ctx.complete(messages, { finishReason, reward })
  }
}

export const agentLoop = new CalculatorAgent()
