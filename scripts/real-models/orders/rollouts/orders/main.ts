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

/** The share of the four values that are right; 0 for an answer that is no order. */
export class RightValues extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const right = orderSchema.parse(JSON.parse(ctx.requireLabel()))
    const read = readOrder(lastAssistantText(ctx.sample))
    const keys = orderSchema.keyof().options
    const matches = keys.filter((key) => read?.[key] === right[key])
    ctx.setReward(matches.length / keys.length)
  }
}

function readOrder(text: string): Partial<Record<string, unknown>> | undefined {
  try {
    return orderSchema.partial().parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
