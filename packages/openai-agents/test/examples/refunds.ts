// rollouts/refunds/main.ts
import { run, tool } from '@openai/agents'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

const Refund = z.object({ order: z.string() })

const refund = tool({
  name: 'refund',
  description: 'Pays an order back.',
  parameters: Refund,
  needsApproval: true,
  execute: async ({ order }) => `${order} is paid back`,
})

// Which refunds a manager would approve, row by row.
const metadata = z.object({ approved: z.array(z.string()) })
export const config = defineWorkflowConfig({
  name: 'refunds',
  metadata,
  rolloutLimits: { modelCalls: 8 },
})

export class Refunds extends AgentWorkflow<typeof config> {
  async run(ctx: AgentWorkflowContext<typeof config>): Promise<void> {
    const agent = new OsmosisAgent({
      name: 'refunds',
      instructions: 'Help the customer.',
      model: new OsmosisRolloutModel(),
      tools: [refund],
    })
    const options = { session: new OsmosisMemorySession({ name: 'refunds' }), signal: ctx.signal }
    let result = await run(agent, ctx.prompt, options)
    while (result.interruptions.length > 0) {
      for (const item of result.interruptions) {
        const { data } = Refund.safeParse(JSON.parse(item.arguments ?? '{}'))
        const isApproved = data !== undefined && ctx.metadata.approved.includes(data.order)
        if (isApproved) result.state.approve(item)
        else result.state.reject(item, { message: 'A manager refused this refund.' })
      }
      result = await run(agent, result.state, options)
    }
  }
}
