import {
  RolloutAgentLoop,
  type RolloutContext,
  type RolloutResult,
  type ToolInput,
} from '@osmosis/agent-loop'

// The loop can stay in its file, which must start nothing when it is imported. What starts something goes behind
// `if (process.argv[1] === import.meta.filename)`.
// import { answer } from '../../src/loop.ts'

export class TaskLoop extends RolloutAgentLoop {
  readonly name = '__name__'

  /** The tools of the existing loop. */
  getTools(): ToolInput[] {
    return []
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    // The existing loop runs here, and what holds its conversation is made here. This class is the one that the steps name:
    // {{steps}}
    // See {{page}}
    throw new Error(
      `no loop runs here yet: ask the policy with ctx.chat() about the ${ctx.request.messages.length} messages of the row, and return ctx.complete() with a reward`,
    )
  }
}

export const agentLoop = new TaskLoop()
