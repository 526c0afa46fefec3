import type { AgentWorkflowContext } from '@osmosis/core'
import {
  type OsmosisInvokeArgs,
  OsmosisRolloutModel,
  OsmosisStrandsAgent,
  type OsmosisStrandsAgentConfig,
} from '@osmosis/strands'
import type { Agent, AgentConfig, InvokeArgs } from '@strands-agents/sdk'
import { expectTypeOf } from 'vitest'

/** The agent of the adapter accepts every option of an Agent. */
export function typesOfConfigs(config: AgentConfig, args: InvokeArgs): void {
  expectTypeOf(config).toExtend<OsmosisStrandsAgentConfig>()
  expectTypeOf(args).toExtend<OsmosisInvokeArgs>()
  expectTypeOf(new OsmosisStrandsAgent(config)).toExtend<Agent>()
  expectTypeOf(OsmosisStrandsAgent).toExtend<typeof Agent>()
  // @ts-expect-error no such option
  expectTypeOf(OsmosisStrandsAgent).toBeConstructibleWith({ instructions: 'x' })
}

/** The prompt of a workflow needs no conversion and no assertion. */
export async function promptOfWorkflow({ prompt }: AgentWorkflowContext): Promise<void> {
  const model = new OsmosisRolloutModel({ params: { temperature: 1, min_p: 0.1, stop: null } })
  const agent = new OsmosisStrandsAgent({ model, messages: prompt })
  await agent.invoke()
  await agent.invoke(undefined, { limits: { turns: 1 } })
  const result = await agent.invoke(prompt)
  expectTypeOf(result).toEqualTypeOf<Awaited<ReturnType<Agent['invoke']>>>()
  // @ts-expect-error values of known parameters are checked
  expectTypeOf(OsmosisRolloutModel).toBeConstructibleWith({ params: { temperature: 'hot' } })
}
