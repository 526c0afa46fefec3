// An agent of the AI SDK that reads orders: a message of a customer becomes an object.
import { rolloutModel } from '@osmosis/ai-sdk'
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { generateText, NoObjectGeneratedError, Output } from 'ai'
import { z } from 'zod'

const orderSchema = z.object({
  name: z.string(),
  city: z.string(),
  count: z.number(),
  item: z.string(),
})

export class ReadOrder extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const [message] = ctx.prompt
    await generateText({
      model: rolloutModel(),
      system: 'You answer with JSON.',
      prompt: `${String(message?.content)}\n\nWrite this order as JSON with the keys name, city, count and item.`,
      output: Output.object({ schema: orderSchema }),
      abortSignal: ctx.signal,
    }).catch((error: unknown) => {
      // The grader sees what the model wrote instead.
      if (!NoObjectGeneratedError.isInstance(error)) throw error
    })
  }
}

/** The share of the four values that are right. They count half where other text stands around the object. */
export class RightValues extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const right = orderSchema.parse(JSON.parse(ctx.requireLabel()))
    const text = lastAssistantText(ctx.sample).trim()
    const [object = ''] = /\{.*?\}/s.exec(text) ?? []
    const read = readOrder(object)
    const keys = orderSchema.keyof().options
    const share = keys.filter((key) => read?.[key] === right[key]).length / keys.length
    ctx.setReward(object === text ? share : share / 2)
  }
}

function readOrder(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
