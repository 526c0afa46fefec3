import { Agent, type AgentInputItem, type AgentOutputType, handoff, run } from '@openai/agents'
import type { AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, toAgentInput } from '@osmosis/openai-agents'
import { expectTypeOf } from 'vitest'
import { z } from 'zod'

const outputType = z.object({ sum: z.number() })

/** OsmosisAgent is as generic as Agent: what `run` says of one, it says of the other. */
export async function typesOfAgents(): Promise<void> {
  const text = { agent: new Agent({ name: 'x' }), ours: new OsmosisAgent({ name: 'x' }) }
  const ofText = { agent: await run(text.agent, ''), ours: await run(text.ours, '') }
  expectTypeOf<typeof ofText.ours.finalOutput>().toEqualTypeOf<typeof ofText.agent.finalOutput>()
  expectTypeOf<typeof ofText.ours.finalOutput>().toEqualTypeOf<string | undefined>()

  const parsed = {
    agent: new Agent({ name: 'x', outputType }),
    ours: new OsmosisAgent({ name: 'x', outputType }),
  }
  const ofParsed = { agent: await run(parsed.agent, ''), ours: await run(parsed.ours, '') }
  expectTypeOf<typeof ofParsed.ours.finalOutput>().toEqualTypeOf<
    typeof ofParsed.agent.finalOutput
  >()
  expectTypeOf<typeof ofParsed.ours.finalOutput>().toEqualTypeOf<{ sum: number } | undefined>()

  const created = {
    agent: Agent.create({ name: 'x', handoffs: [parsed.agent, handoff(text.agent)] }),
    ours: OsmosisAgent.create({ name: 'x', handoffs: [parsed.ours, handoff(text.ours)] }),
  }
  const ofCreated = { agent: await run(created.agent, ''), ours: await run(created.ours, '') }
  expectTypeOf<typeof ofCreated.ours.finalOutput>().toEqualTypeOf<
    typeof ofCreated.agent.finalOutput
  >()
  expectTypeOf<typeof created.ours.outputType>().toEqualTypeOf<typeof created.agent.outputType>()

  const cloned = parsed.ours.clone({ name: 'y' })
  expectTypeOf<typeof cloned>().toEqualTypeOf<typeof parsed.ours>()

  type Context = { user: string }
  type Instructions = ConstructorParameters<typeof OsmosisAgent<Context>>[0]['instructions']
  type AgentInstructions = ConstructorParameters<typeof Agent<Context>>[0]['instructions']
  expectTypeOf<Instructions>().toEqualTypeOf<AgentInstructions>()
  // @ts-expect-error an agent needs a name
  expectTypeOf(OsmosisAgent).toBeConstructibleWith({})

  const asAgent: Agent<unknown, AgentOutputType> = text.ours as Agent<unknown, AgentOutputType>
  asAgent.asTool({ toolName: 'x' })
}

/** The prompt of a workflow needs no conversion and no assertion. */
export async function promptOfWorkflow({ prompt }: AgentWorkflowContext): Promise<void> {
  const items: AgentInputItem[] = toAgentInput(prompt)
  await run(new OsmosisAgent({ name: 'x' }), prompt, {
    session: new OsmosisMemorySession({ name: 'main', initialItems: items }),
  })
}
