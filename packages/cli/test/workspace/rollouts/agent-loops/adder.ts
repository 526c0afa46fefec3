import {
  createToolResult,
  executeToolCalls,
  getLastAssistantContent,
  getToolCallInfo,
  RolloutAgentLoop,
  type RolloutContext,
  type RolloutResult,
  type ToolInput,
} from '@osmosis/agent-loop'

export class Adder extends RolloutAgentLoop {
  readonly name = 'adder'

  getTools(): ToolInput[] {
    return [
      {
        type: 'function',
        function: {
          name: 'add',
          description: 'Add two numbers',
          parameters: { type: 'object', properties: { a: { type: 'number' } } },
        },
      },
    ]
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    const messages = [...ctx.request.messages]
    ctx.logEvent('started', { max_turns: ctx.request.maxTurns })
    for (let turn = 0; turn < ctx.request.maxTurns; turn += 1) {
      const { message, toolCalls, hasToolCalls } = await ctx.chat(
        messages,
        ctx.request.completionParams,
      )
      messages.push(message)
      if (!hasToolCalls) {
        const reward = getLastAssistantContent(messages) === ctx.request.metadata['ground_truth']
        return ctx.complete(messages, { reward: reward ? 1 : 0 })
      }
      messages.push(
        ...(await executeToolCalls(toolCalls, (call) => {
          const { toolCallId, args } = getToolCallInfo(call)
          return createToolResult(toolCallId, String(Number(args['a']) + Number(args['b'])))
        })),
      )
    }
    return ctx.error('too many turns', { finalMessages: messages })
  }
}

export const agentLoop = new Adder()
export const number = 5
