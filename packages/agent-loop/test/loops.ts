import {
  RolloutAgentLoop,
  type RolloutContext,
  type RolloutRequest,
  type RolloutResult,
  type ToolInput,
} from '@osmosis/agent-loop'

/** An agent loop that does what `run` does, with the tools of `getTools`. */
export function loopOf(
  run: (ctx: RolloutContext) => RolloutResult | Promise<RolloutResult>,
  getTools: (request: RolloutRequest) => unknown = () => [],
): RolloutAgentLoop {
  class TestLoop extends RolloutAgentLoop {
    readonly name = 'test-loop'

    getTools(request: RolloutRequest): ToolInput[] {
      return getTools(request) as ToolInput[]
    }

    async run(ctx: RolloutContext): Promise<RolloutResult> {
      return run(ctx)
    }
  }
  return new TestLoop()
}

/** Calls the policy once and ends with its answer. */
export async function answerOnce(ctx: RolloutContext): Promise<RolloutResult> {
  const messages = [...ctx.request.messages]
  const { message, finishReason } = await ctx.chat(messages, ctx.request.completionParams)
  return ctx.complete([...messages, message], { finishReason })
}
