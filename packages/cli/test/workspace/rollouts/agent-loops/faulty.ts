import {
  RolloutAgentLoop,
  type RolloutContext,
  type RolloutRequest,
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

/** Has no tools for some rows. */
class Choosy extends Doubtful {
  override getTools(request: RolloutRequest): ToolInput[] {
    if (JSON.stringify(request.messages).includes('no numbers')) throw new Error('nothing to add')
    return super.getTools()
  }

  override async run(ctx: RolloutContext): Promise<RolloutResult> {
    return ctx.complete([], { reward: 1 })
  }
}

export class Unmakeable extends Doubtful {
  constructor() {
    super()
    throw new Error('no settings')
  }
}

export const doubtful = new Doubtful()
export const choosy = new Choosy()
export const wrong = new Wrong()
