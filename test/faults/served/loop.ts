import { RolloutAgentLoop, type RolloutContext, type RolloutResult } from '@osmosis/agent-loop'

import { harmIn, runMark, type Row } from './harms.ts'

/** The same as {@link FaultyWorkflow}, as a hand-written loop that sets its own reward. */
class FaultyLoop extends RolloutAgentLoop {
  readonly name = 'faults'

  getTools(): [] {
    return []
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    const row = ctx.request.metadata as unknown as Row
    const mark = runMark()
    const messages: { role: string; content: string }[] = []
    await harmIn('before asking', row)
    for (let call = 0; call < row.calls; call += 1) {
      if (call > 0) await harmIn('between calls', row)
      messages.push({ role: 'user', content: `${call} ${mark}` })
      const { message } = await ctx.chat([...messages])
      messages.push({ role: 'assistant', content: String(message.content) })
    }
    return ctx.complete(messages, { reward: Number(messages.at(-1)?.content) })
  }
}

export const agentLoop = new FaultyLoop()
