import { AgentWorkflow } from '@osmosis/core'

// Taken before the server contains it: this really ends the process.
const exit = process.exit.bind(process)

export class ExitingWorkflow extends AgentWorkflow {
  async run(): Promise<void> {
    console.error('about to exit')
    exit(7)
  }
}
