import { generateText, isStepCount, tool, type LanguageModel, type ModelMessage } from 'ai'
import { z } from 'zod'

const multiply = tool({
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

/** The loop of the agent, which needs no part of Cloudflare's runtime. */
export async function answer(
  model: LanguageModel,
  messages: ModelMessage[],
  abortSignal: AbortSignal,
): Promise<string> {
  const { text } = await generateText({
    model,
    messages,
    tools: { multiply },
    stopWhen: isStepCount(8),
    abortSignal,
  })
  return text
}
