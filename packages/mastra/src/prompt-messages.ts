import type { MessageInput } from '@mastra/core/agent/message-list'
import { toModelMessages as sdkMessages } from '@osmosis/ai-sdk/without-sdk'
import type { PromptMessage } from '@osmosis/core'

type SdkMessage = ReturnType<typeof sdkMessages>[number]
type SdkPart = Exclude<SdkMessage['content'], string>[number]

/**
 * Messages in chat completions form as messages of Mastra: `agent.generate(toModelMessages(ctx.prompt))`. Mastra places
 * system messages behind the instructions of the agent.
 *
 * @throws OsmosisError with code `invalid_request` for roles and parts that Mastra has no form for
 */
export function toModelMessages(messages: readonly PromptMessage[]): MessageInput[] {
  return sdkMessages(messages).map((message) =>
    typeof message.content === 'string'
      ? message
      : { ...message, content: message.content.map(withPlainData) },
  ) as MessageInput[]
}

/** Files as they were before version 7 of the AI SDK: every release of Mastra 1 reads that form. */
function withPlainData(part: SdkPart): object {
  if (part.type !== 'file') return part
  const { data, mediaType, ...file } = part as typeof part & { data: { url?: URL; data?: string } }
  const isWhole = mediaType.includes('/')
  return { ...file, mediaType: isWhole ? mediaType : `${mediaType}/*`, data: data.url ?? data.data }
}
