import { ImageBlock, type ImageFormat, TextBlock } from '@strands-agents/sdk'
import { OsmosisError } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

type Content = ChatMessage['content']

/**
 * The content of a chat completions message as blocks of Strands.
 *
 * @throws OsmosisError with code `invalid_request` for a part that Strands has no block for
 */
export function toBlocks(content: Content | undefined, where: string): (TextBlock | ImageBlock)[] {
  if (content === undefined || content === null || content === '') return []
  if (typeof content === 'string') return [new TextBlock(content)]
  return content.map((part, index) => {
    if (part.type === 'text') return new TextBlock(part.text ?? '')
    if (part.type === 'refusal') return new TextBlock(part['refusal'] as string)
    if (part.type === 'image_url') return imageBlock(part['image_url'] as string | { url: string })
    throw unsupported(`${where}.content[${index}]`, part.type, 'text, image_url')
  })
}

/**
 * The text of a message that can hold nothing but text.
 *
 * @throws OsmosisError with code `invalid_request` when it holds something else
 */
export function joinedText(content: Content | undefined, where: string): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .map(({ type, text }, index) => {
      if (type === 'text') return text ?? ''
      throw unsupported(`${where}.content[${index}]`, type, 'text')
    })
    .join('')
}

/** By its address, data URLs included: bytes would be coded anew for every model call. */
function imageBlock(image: string | { url: string }): ImageBlock {
  const url = typeof image === 'string' ? image : image.url
  return new ImageBlock({ format: imageFormat(url), source: { url } })
}

function imageFormat(url: string): ImageFormat {
  const [, ofData, ofPath] =
    /^data:image\/([a-z]+)|\.(png|jpe?g|gif|webp)(?:[?#]|$)/i.exec(url) ?? []
  const format = (ofData ?? ofPath ?? '').toLowerCase()
  if (format === 'jpg' || format === 'jpeg') return 'jpeg'
  return format === 'gif' || format === 'webp' ? format : 'png'
}

function unsupported(where: string, type: string, supported: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `${where} is a part of type ${JSON.stringify(type)}, for which Strands has no form. Parts it takes there: ${supported}.`,
  )
}
