// The calculator of the other examples, which first gets ready for a while, as one does that starts a
// sandbox: a worker that is lost meanwhile has asked nobody, and another one runs its rollouts again.
import { setTimeout as sleep } from 'node:timers/promises'

import type { AgentWorkflowContext } from '@osmosis/core'

import { MultiplyWorkflow } from '../../rollouts/multiply-openai-agents/main.ts'

export { MultiplyGrader } from '../../rollouts/multiply-openai-agents/main.ts'

export class PreparedMultiplyWorkflow extends MultiplyWorkflow {
  override async run(ctx: AgentWorkflowContext): Promise<void> {
    await sleep(200 + 1000 * Math.random(), undefined, { signal: ctx.signal })
    await super.run(ctx)
  }
}
