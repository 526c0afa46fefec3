import { AgentWorkflow } from '@osmosis/core'

export class ExitingWorkflow extends AgentWorkflow {
  async run(): Promise<void> {
    console.error('about to exit')
    process.exit(7)
  }
}
