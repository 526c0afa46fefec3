import type { BaseMessage } from '@langchain/core/messages'
import { OsmosisError } from '@osmosis/core'
import type { ChatContentPart } from '@osmosis/core/policy'

/** One block of a message's content, in any of LangChain's forms. */
export interface ContentBlock {
  readonly type?: string
  readonly [field: string]: unknown
}

type Block = string | ContentBlock

/**
 * The text of a message, its blocks put together.
 *
 * @param skipped - types of blocks that are left out
 * @throws OsmosisError with code `invalid_request` when it has other blocks
 */
export function textOf(message: BaseMessage, skipped: ReadonlySet<string> = new Set()): string {
  const { content } = message
  if (typeof content === 'string') return content
  return (content as Block[])
    .filter((block) => typeof block === 'string' || !skipped.has(String(block.type)))
    .map((block) => {
      const part = toPart(block, message)
      if (part.type === 'text') return part.text ?? ''
      throw unknownBlock(block, message)
    })
    .join('')
}

/**
 * The blocks of a message as parts of a chat completions message.
 *
 * @throws OsmosisError with code `invalid_request` for blocks without such a form
 */
export function toParts(message: BaseMessage): ChatContentPart[] {
  return (message.content as Block[]).map((block) => toPart(block, message))
}

function toPart(block: Block, message: BaseMessage): ChatContentPart {
  if (typeof block === 'string') return { type: 'text', text: block }
  switch (block.type) {
    case 'text':
    case 'text-plain':
      if (typeof block['text'] === 'string') return { type: 'text', text: block['text'] }
      break
    case 'image_url':
    case 'video_url': {
      const link = block[block.type]
      return { type: block.type, [block.type]: typeof link === 'string' ? { url: link } : link }
    }
    case 'input_audio':
      return { type: 'input_audio', input_audio: block['input_audio'] }
    case 'image':
    case 'video': {
      const url = addressOf(block)
      const type = `${block.type}_url`
      if (url !== undefined) return { type, [type]: { url, ...detailOf(block) } }
      break
    }
    case 'audio': {
      const audio = audioOf(block)
      if (audio) return { type: 'input_audio', input_audio: audio }
      break
    }
    case 'file': {
      const file = fileOf(block)
      if (file) return { type: 'file', file }
      break
    }
    case undefined:
    default:
  }
  throw unknownBlock(block, message)
}

/** A web address, or the data as a data URL. */
function addressOf(block: ContentBlock): string | undefined {
  if (typeof block['url'] === 'string') return block['url']
  const data = base64Of(block)
  return data === undefined ? undefined : `data:${mediaTypeOf(block)};base64,${data}`
}

function base64Of({ data }: ContentBlock): string | undefined {
  if (typeof data === 'string') return data
  return data instanceof Uint8Array ? Buffer.from(data).toString('base64') : undefined
}

function mediaTypeOf(block: ContentBlock): string {
  const type = block['mimeType'] ?? block['mime_type']
  return typeof type === 'string' ? type : 'application/octet-stream'
}

function detailOf({ metadata }: ContentBlock): { detail?: unknown } {
  const { detail } = (metadata ?? {}) as { detail?: unknown }
  return detail === undefined ? {} : { detail }
}

function audioOf(block: ContentBlock): { data: string; format: string } | undefined {
  const [, type, data] = /^data:([^;,]+);base64,([^]*)$/.exec(addressOf(block) ?? '') ?? []
  if (type === undefined || data === undefined) return undefined
  const [, subtype = ''] = type.split('/')
  return { data, format: subtype === 'mpeg' ? 'mp3' : subtype }
}

function fileOf(block: ContentBlock): object | undefined {
  // Already a part of chat completions.
  if (typeof block['file'] === 'object' && block['file'] !== null) return block['file']
  const id = block['fileId'] ?? (block['source_type'] === 'id' ? block['id'] : undefined)
  if (typeof id === 'string') return { file_id: id }
  const data = addressOf(block)
  if (!data?.startsWith('data:')) return undefined
  const { filename } = (block['metadata'] ?? {}) as { filename?: unknown }
  return { file_data: data, ...(filename === undefined ? {} : { filename }) }
}

function unknownBlock(block: Block, { type }: BaseMessage): OsmosisError {
  const kind = typeof block === 'string' ? 'text' : block.type
  return new OsmosisError(
    'invalid_request',
    `A content block of the type ${JSON.stringify(kind)} in a LangChain message of the type ${JSON.stringify(type)} has no chat completions form. Send text, and images, audio, video or files with their data in messages of the user.`,
  )
}
