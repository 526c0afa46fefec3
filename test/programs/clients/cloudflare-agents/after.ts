import { rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'

import { answer } from './answer.ts'

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await answer(rolloutModel('calculator'), toModelMessages(ctx.prompt), ctx.signal)
  }
}
