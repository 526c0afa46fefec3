import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

const search = tool({
  name: 'search',
  description: 'Search for information.',
  inputSchema: z.object({ query: z.string() }),
  callback: ({ query }) => `Results for: ${query}`,
})

export class SearchWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisStrandsAgent({
      name: 'search-agent',
      model: new OsmosisRolloutModel({ params: { temperature: 1 } }),
      tools: [search],
      systemPrompt: 'You are a helpful assistant.',
      messages: ctx.prompt,
    })
    await agent.invoke()
  }
}
