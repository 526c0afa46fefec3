import { Agent, type AgentInputItem, type AgentOutputType, handoff, run } from '@openai/agents'
import type { AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, toAgentInput } from '@osmosis/openai-agents'
import { z } from 'zod'

/** Compiles only when both types are the same. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : never

function same<A, B>(_proof: Same<A, B>): void {}

const outputType = z.object({ sum: z.number() })

/** OsmosisAgent is as generic as Agent: what `run` says of one, it says of the other. */
export async function typesOfAgents(): Promise<void> {
  const text = { agent: new Agent({ name: 'x' }), ours: new OsmosisAgent({ name: 'x' }) }
  const ofText = { agent: await run(text.agent, ''), ours: await run(text.ours, '') }
  same<typeof ofText.ours.finalOutput, typeof ofText.agent.finalOutput>(true)
  same<typeof ofText.ours.finalOutput, string | undefined>(true)

  const parsed = {
    agent: new Agent({ name: 'x', outputType }),
    ours: new OsmosisAgent({ name: 'x', outputType }),
  }
  const ofParsed = { agent: await run(parsed.agent, ''), ours: await run(parsed.ours, '') }
  same<typeof ofParsed.ours.finalOutput, typeof ofParsed.agent.finalOutput>(true)
  same<typeof ofParsed.ours.finalOutput, { sum: number } | undefined>(true)

  const created = {
    agent: Agent.create({ name: 'x', handoffs: [parsed.agent, handoff(text.agent)] }),
    ours: OsmosisAgent.create({ name: 'x', handoffs: [parsed.ours, handoff(text.ours)] }),
  }
  const ofCreated = { agent: await run(created.agent, ''), ours: await run(created.ours, '') }
  same<typeof ofCreated.ours.finalOutput, typeof ofCreated.agent.finalOutput>(true)
  same<typeof created.ours.outputType, typeof created.agent.outputType>(true)

  const cloned = parsed.ours.clone({ name: 'y' })
  same<typeof cloned, typeof parsed.ours>(true)

  new OsmosisAgent<{ user: string }>({
    name: 'x',
    instructions: ({ context }) => context.user,
  })
  new OsmosisAgent<{ user: string }>({
    name: 'x',
    // @ts-expect-error the context has no such key
    instructions: ({ context }) => context.missing,
  })
  // @ts-expect-error an agent needs a name
  new OsmosisAgent({})

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
