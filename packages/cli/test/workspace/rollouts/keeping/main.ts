import { writeFileSync } from 'node:fs'
import path from 'node:path'

import type { AgentWorkflowContext } from '@osmosis/core'

import { EchoWorkflow } from '../echo/main.ts'

export { EchoGrader } from '../echo/main.ts'

/** Keeps a file of each rollout. */
export class KeepingWorkflow extends EchoWorkflow {
  override async run(ctx: AgentWorkflowContext): Promise<void> {
    writeFileSync(path.join(ctx.artifactsDir ?? '', 'notes.txt'), 'kept')
    return super.run(ctx)
  }
}
