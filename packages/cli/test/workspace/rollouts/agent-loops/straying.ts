import type { EvalFunction, RolloutContext, RolloutResult } from '@osmosis/agent-loop'

import { Adder } from './adder.ts'

/** Begins something that fails, once, and waits for it no more than `judge` does. */
class Straying extends Adder {
  #hasForgotten = false

  override async run(ctx: RolloutContext): Promise<RolloutResult> {
    if (!this.#hasForgotten) void Promise.reject(new Error('the loop forgot this'))
    this.#hasForgotten = true
    return super.run(ctx)
  }
}

export const agentLoop = new Straying()

export const judge: EvalFunction = ({ reward }) => {
  void Promise.reject(new Error('the judge\nforgot this'))
  return reward ?? 0
}
