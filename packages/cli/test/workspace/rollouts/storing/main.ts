import { writeFileSync } from 'node:fs'
import path from 'node:path'

import type { AgentWorkflowContext } from '@osmosis/core'

import { EchoWorkflow } from '../echo/main.ts'

export { EchoGrader } from '../echo/main.ts'

/** Stores a file for each rollout. */
export class StoringWorkflow extends EchoWorkflow {
  override async run(ctx: AgentWorkflowContext): Promise<void> {
    writeFileSync(path.join(ctx.artifactsDir ?? '', 'notes.txt'), 'stored')
    return super.run(ctx)
  }
}
