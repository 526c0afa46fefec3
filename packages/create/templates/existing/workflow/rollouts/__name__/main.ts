import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'

// The agent can stay in its file, which must start nothing when it is imported. What starts something goes behind
// `if (process.argv[1] === import.meta.filename)`.
// import { createAgent } from '../../src/agent.ts'

export { TaskGrader } from './grader.ts'

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__' })

export class TaskWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    // The existing agent runs here, and what holds its conversation is made here. This class is the one that the steps name:
    // {{steps}}
    // See {{page}}
    throw new Error(
      `no agent runs here yet: give it the prompt of the row, ctx.prompt with ${ctx.prompt.length} messages, and await it`,
    )
  }
}
