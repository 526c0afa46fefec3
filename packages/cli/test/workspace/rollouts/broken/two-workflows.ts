import { AgentWorkflow } from '@osmosis/core'

export class First extends AgentWorkflow {
  async run(): Promise<void> {}
}

export class Second extends AgentWorkflow {
  async run(): Promise<void> {}
}
