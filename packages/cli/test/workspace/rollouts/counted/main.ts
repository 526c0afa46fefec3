import { appendFileSync } from 'node:fs'

import type { AgentWorkflowContext } from '@osmosis/core'

import { EchoWorkflow } from '../echo/main.ts'

export { EchoGrader } from '../echo/main.ts'

/** Leaves a mark for each rollout that is started, even if its process is killed. */
export class CountedWorkflow extends EchoWorkflow {
  override async run(ctx: AgentWorkflowContext): Promise<void> {
    const { STARTED_FILE = '' } = process.env
    appendFileSync(STARTED_FILE, '.')
    return super.run(ctx)
  }
}
