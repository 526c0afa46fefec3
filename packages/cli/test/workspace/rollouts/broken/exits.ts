import { AgentWorkflow } from '@osmosis/core'

export class ExitingWorkflow extends AgentWorkflow {
  async run(): Promise<void> {
    console.error('about to exit')
    // The server refuses `process.exit`.
    ;(process as unknown as { reallyExit(code: number): void }).reallyExit(7)
  }
}
