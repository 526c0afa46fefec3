import { run } from '@openai/agents'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'

export class OpenAIWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisAgent({
      name: 'assistant',
      instructions: "Answer the user's request clearly.",
      model: new OsmosisRolloutModel(),
      modelSettings: { temperature: 1, maxTokens: 4096 },
    })
    const session = new OsmosisMemorySession({ name: 'assistant' })
    await run(agent, ctx.prompt, { session })
  }
}
