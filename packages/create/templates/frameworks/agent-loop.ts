import {
  createToolErrorResult,
  createToolResult,
  executeToolCalls,
  functionTool,
  getLastAssistantContent,
  getToolCallInfo,
  RolloutAgentLoop,
  type RolloutContext,
  type RolloutResult,
  type ToolInput,
  type ToolResultMessage,
} from '@osmosis/agent-loop'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'
import { rewardOf } from './reward.ts'

const instructions = 'Look up every price, then add up.'

const lookUp = z.object({ product: z.string() })

/** Never throws, because errors are returned to the policy. */
function executeTool(toolCall: unknown): ToolResultMessage {
  let toolCallId = 'unknown'
  try {
    const call = getToolCallInfo(toolCall)
    toolCallId = call.toolCallId
    if (call.name !== 'look_up_price') throw new Error(`there is no tool ${call.name}`)
    return createToolResult(toolCallId, lookUpPrice(lookUp.parse(call.args).product))
  } catch (error) {
    return createToolErrorResult(toolCallId, error instanceof Error ? error.message : 'failed')
  }
}

export class ShopAgent extends RolloutAgentLoop {
  readonly name = '__name__'

  getTools(): ToolInput[] {
    const description = 'The price of one piece of a product, in euros.'
    return [functionTool({ name: 'look_up_price', description, parameters: lookUp })]
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    const { request } = ctx
    const messages = [{ role: 'system', content: instructions }, ...request.messages]
    let finishReason = 'max_turns'
    for (let turn = 0; turn < request.maxTurns; turn += 1) {
      const result = await ctx.chat(messages, request.completionParams) // asks the policy
      messages.push(result.message)
      if (!result.hasToolCalls) {
        finishReason = result.finishReason ?? 'stop'
        break
      }
      messages.push(...(await executeToolCalls(result.toolCalls, executeTool)))
    }
    const label = request.metadata['ground_truth']
    const reward = rewardOf(
      getLastAssistantContent(messages) ?? '',
      typeof label === 'string' ? label : null,
    )
    return ctx.complete(messages, { finishReason, reward })
  }
}

export const agentLoop = new ShopAgent()
