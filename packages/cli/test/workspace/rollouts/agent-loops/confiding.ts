import { RolloutAgentLoop, type RolloutContext, type RolloutResult } from '@osmosis/agent-loop'

/** Tells the policy what it was sent, and gives no reward. */
class Confiding extends RolloutAgentLoop {
  readonly name = 'confiding'

  getTools(): [] {
    return []
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    const { request } = ctx
    const content = JSON.stringify({ id: request.rolloutId, metadata: request.metadata })
    const messages = [{ role: 'user', content }]
    const { message } = await ctx.chat(messages, request.completionParams)
    return ctx.complete([...messages, message])
  }
}

export const agentLoop = new Confiding()
