import {
  RolloutAgentLoop,
  type RolloutContext,
  type RolloutResult,
  type ToolInput,
} from '@osmosis/agent-loop'

class Doubtful extends RolloutAgentLoop {
  readonly name = 'doubtful'

  getTools(): ToolInput[] {
    return [{ type: 'function', function: { name: 'f' } }]
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    return ctx.complete([])
  }
}

class Wrong extends Doubtful {
  override getTools(): ToolInput[] {
    return null as never
  }
}

export class Unmakeable extends Doubtful {
  constructor() {
    super()
    throw new Error('no settings')
  }
}

export const doubtful = new Doubtful()
export const wrong = new Wrong()
