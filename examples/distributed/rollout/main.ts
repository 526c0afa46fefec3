// The calculator of the other examples, with a pause at its start that represents starting a sandbox. When a
// worker is lost during the pause, it has not called the policy, and another worker runs its rollouts again.
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
