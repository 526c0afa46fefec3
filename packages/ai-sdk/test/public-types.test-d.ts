import {
  fromChatMessages,
  OsmosisToolLoopAgent,
  rolloutModel,
  toModelMessages,
} from '@osmosis/ai-sdk'
import type { AgentWorkflowContext } from '@osmosis/core'
import {
  type Agent,
  generateText,
  type LanguageModel,
  Output,
  streamText,
  tool,
  ToolLoopAgent,
  wrapLanguageModel,
} from 'ai'
import { expectTypeOf } from 'vitest'
import { z } from 'zod'

const add = tool({
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
})
const output = Output.object({ schema: z.object({ sum: z.number() }) })

/** A rollout model is a model of the installed SDK, without an assertion. */
export async function typesOfModels({ prompt }: AgentWorkflowContext): Promise<void> {
  const model = rolloutModel({ name: 'main', temperature: 1, fallback: rolloutModel() })
  expectTypeOf(model).toExtend<LanguageModel>()
  await generateText({ model, ...fromChatMessages(prompt) })
  streamText({ model: wrapLanguageModel({ model, middleware: [] }), ...fromChatMessages(prompt) })
  // @ts-expect-error a temperature is a number
  rolloutModel({ temperature: 'hot' })
}

/** OsmosisToolLoopAgent is as generic as ToolLoopAgent: their types agree. */
export async function typesOfAgents({ prompt }: AgentWorkflowContext): Promise<void> {
  const settings = { model: rolloutModel(), tools: { add }, output }
  const theirs = new ToolLoopAgent(settings)
  const ours = new OsmosisToolLoopAgent(settings)
  const messages = toModelMessages(prompt)
  const ofTheirs = await theirs.generate({ messages })
  const ofOurs = await ours.generate({ messages })
  expectTypeOf(ofOurs).toEqualTypeOf(ofTheirs)
  expectTypeOf(ofOurs.output).toEqualTypeOf<{ sum: number }>()
  expectTypeOf(ours.tools).toEqualTypeOf<{ add: typeof add }>()

  const withOptions = new OsmosisToolLoopAgent({
    model: rolloutModel(),
    callOptionsSchema: z.object({ level: z.number() }),
    prepareCall: ({ options, ...call }) => ({ ...call, temperature: options.level }),
  })
  await withOptions.generate({ prompt: 'go', options: { level: 1 } })
  // @ts-expect-error the options are missing
  await withOptions.generate({ prompt: 'go' })

  const plain: Agent = new OsmosisToolLoopAgent({ model: rolloutModel() })
  await plain.generate({ prompt: 'go' })
}
