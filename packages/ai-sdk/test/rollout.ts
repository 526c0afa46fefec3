import { rolloutModel, type RolloutModelSettings } from '@osmosis/ai-sdk'
import type { RolloutSample } from '@osmosis/core'
import type { ReceivedRequest } from '@osmosis/testing'
import { generateText, isStepCount, type ModelMessage, streamText, tool, type ToolSet } from 'ai'
import { z } from 'zod'

import { messagesOf } from '../../../test/kit/index.ts'

/** Adds two numbers; what else the policy passes is ignored. */
export const tools: ToolSet = {
  add: tool({
    description: 'Adds two numbers.',
    inputSchema: z.looseObject({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => `sum: ${a + b}`,
  }),
}

/** The functions of the SDK that run a tool loop, each resolving with the last text. */
export const loops = {
  async generateText(settings: RolloutModelSettings, prompt: string): Promise<string> {
    const model = rolloutModel(settings)
    const { text } = await generateText({ model, prompt, tools, stopWhen: isStepCount(20) })
    return text
  },
  async streamText(settings: RolloutModelSettings, prompt: string): Promise<string> {
    const model = rolloutModel(settings)
    let said = ''
    const result = streamText({ model, prompt, tools, stopWhen: isStepCount(20) })
    for await (const text of result.textStream) said += text
    return said
  },
}

/** The text of the first message, which identifies a conversation. */
export function firstText(request: ReceivedRequest): string {
  const content = messagesOf(request)[0]?.content
  if (typeof content !== 'string') throw new TypeError('the first message is not text')
  return content
}

/** What the messages of a sample are, one word each. */
export function rolesOf({ messages }: Pick<RolloutSample, 'messages'>): string[] {
  return (messages as { role: string }[]).map(({ role }) => role)
}

/** A tool call of the policy, to {@link tools}. */
export function callOfAdd(
  id: string,
  args = '{"a":1,"b":2}',
): { id: string; name: string; arguments: string } {
  return { id, name: 'add', arguments: args }
}

/** What the tools returned, in the messages of a sample. */
export function toolOutputs({ messages }: RolloutSample): unknown[] {
  return (messages as ModelMessage[]).flatMap((message) =>
    message.role === 'tool'
      ? message.content.map((part) => 'output' in part && [part.toolCallId, part.output])
      : [],
  )
}
