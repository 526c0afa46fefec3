import { AgentWorkflow, type AgentWorkflowContext, defineWorkflowConfig } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

const search = tool({
  name: 'search',
  description: 'Search for information.',
  inputSchema: z.object({ query: z.string() }),
  callback: ({ query }) => `results for ${query}`,
})

export const toolWorkflowConfig = defineWorkflowConfig({
  name: 'tool-workflow',
  model: new OsmosisRolloutModel({ params: { temperature: 1 } }),
  tools: [search],
  maxIterations: 8,
})

export class ToolWorkflow extends AgentWorkflow<typeof toolWorkflowConfig> {
  async run(ctx: AgentWorkflowContext<typeof toolWorkflowConfig>): Promise<void> {
    const { model, tools, maxIterations } = ctx.config
    const agent = new OsmosisStrandsAgent({
      name: 'search-agent',
      model,
      tools,
      messages: ctx.prompt,
    })
    for (let iteration = 0; iteration < maxIterations; iteration += 1) {
      const result = await agent.invoke()
      if (!result.lastMessage.content.some(({ type }) => type === 'toolUseBlock')) break
    }
  }
}
