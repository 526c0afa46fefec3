import { isDeepStrictEqual } from 'node:util'

import { OsmosisError } from '@osmosis/core'
import type { ChatContentPart, ChatMessage } from '@osmosis/core/policy'
import type { ModelMessage, SystemModelMessage } from 'ai'

type ProviderOptions = NonNullable<SystemModelMessage['providerOptions']>
type UserPart = Exclude<Extract<ModelMessage, { role: 'user' }>['content'], string>[number]

/**
 * Options that add fields to a message or part when it goes over the wire.
 *
 * @param fields - as they are to be sent
 * @param sent - as they are sent anyway; only what differs needs an option
 */
export function onTheWire(
  fields: object,
  sent: Readonly<Record<string, unknown>>,
): { providerOptions?: ProviderOptions } {
  const differing = Object.entries(fields).filter(
    ([key, value]) => value !== undefined && !isDeepStrictEqual(value, sent[key]),
  )
  if (differing.length === 0) return {}
  const openaiCompatible: unknown = Object.fromEntries(differing)
  return { providerOptions: { openaiCompatible } as ProviderOptions }
}

/**
 * The text of a content; that of its parts put together.
 *
 * @throws OsmosisError with code `invalid_request` when it has parts that are no text
 */
export function textOf(content: ChatMessage['content']): string {
  if (!Array.isArray(content)) return content ?? ''
  return content
    .map((part) => {
      if (part.type === 'text' && typeof part.text === 'string') return part.text
      throw unknownPart(part, 'outside of user messages')
    })
    .join('')
}

/**
 * Parts of a user message as the SDK has them.
 *
 * @throws OsmosisError with code `invalid_request` for types the SDK has no form for
 */
export function toUserParts(parts: readonly ChatContentPart[]): UserPart[] {
  return parts.map(toUserPart)
}

function toUserPart(part: ChatContentPart): UserPart {
  const { type, ...fields } = part
  switch (type) {
    case 'text':
      return { type, text: part.text ?? '', ...onTheWire(fields, { text: part.text }) }
    case 'image_url':
      return linkedFile(part, 'image')
    case 'video_url':
      return linkedFile(part, 'video')
    case 'input_audio': {
      const { data, format } = part['input_audio'] as { data: string; format: string }
      const mediaType = format === 'mp3' ? 'audio/mpeg' : `audio/${format}`
      return { type: 'file', mediaType, data: { type: 'data', data } }
    }
    case 'file': {
      const { file_data = '', filename } = part['file'] as { file_data?: string; filename?: string }
      const inline = dataUrl(file_data)
      if (!inline) throw unknownPart(part, 'without file_data: a data URL')
      return { type: 'file', ...inline, ...(filename === undefined ? {} : { filename }) }
    }
    default:
      throw unknownPart(part, 'in a user message')
  }
}

/** `image_url` and `video_url`: a web address, or the file itself as a data URL. */
function linkedFile(part: ChatContentPart, kind: 'image' | 'video'): UserPart {
  const { type, ...fields } = part
  const link = part[type] as string | { url: string }
  const url = typeof link === 'string' ? link : link.url
  if (!URL.canParse(url)) throw unknownPart(part, `with the address ${JSON.stringify(url)}`)
  const inline = dataUrl(url)
  const file = inline ?? { mediaType: kind, data: { type: 'url' as const, url: new URL(url) } }
  const sent = inline ? url : new URL(url).href
  return { type: 'file', ...file, ...onTheWire(fields, { [type]: { url: sent } }) }
}

function dataUrl(
  url: string,
): { mediaType: string; data: { type: 'data'; data: string } } | undefined {
  const [, mediaType, data] = /^data:([^;,]+);base64,([^]*)$/.exec(url) ?? []
  if (mediaType === undefined || data === undefined) return undefined
  return { mediaType, data: { type: 'data', data } }
}

function unknownPart(part: ChatContentPart, where: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `The AI SDK has no form for a part of the type ${JSON.stringify(part.type)} ${where}.`,
  )
}
