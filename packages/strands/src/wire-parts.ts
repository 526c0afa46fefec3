import type { ContentBlock, DocumentBlock, ImageBlock } from '@strands-agents/sdk'
import { OsmosisError } from '@osmosis/core'
import type { ChatContentPart } from '@osmosis/core/policy'

/**
 * A content block of Strands as parts of a chat completions message; none for a mark that only
 * concerns caches.
 *
 * @throws OsmosisError with code `invalid_request` for what chat completions cannot carry
 */
export function toWirePart(block: ContentBlock): ChatContentPart[] {
  // No `switch`: later versions of the SDK have more kinds of blocks than earlier ones.
  if (block.type === 'textBlock') return [text(block.text)]
  if (block.type === 'cachePointBlock') return []
  if (block.type === 'guardContentBlock' && block.text) return [text(block.text.text)]
  if (block.type === 'citationsBlock') {
    return [text(block.content.map((item) => ('text' in item ? item.text : '')).join(''))]
  }
  if (block.type === 'imageBlock') {
    return [{ type: 'image_url', image_url: { url: imageUrl(block) } }]
  }
  if (block.type === 'documentBlock') return [documentPart(block)]
  return refuse(block.type)
}

function imageUrl({ format, source }: ImageBlock): string {
  switch (source.type) {
    case 'imageSourceUrl':
      return source.url
    case 'imageSourceBytes':
      return dataUrl(`image/${format === 'jpg' ? 'jpeg' : format}`, source.bytes)
    case 'imageSourceS3Location':
      return refuse('imageBlock with an S3 location')
  }
}

function documentPart({ name, format, source }: DocumentBlock): ChatContentPart {
  switch (source.type) {
    case 'documentSourceText':
      return text(source.text)
    case 'documentSourceContentBlock':
      return text(source.content.map((item) => item.text).join(''))
    case 'documentSourceBytes': {
      const file_data = dataUrl(mimeTypes[format] ?? `application/${format}`, source.bytes)
      return { type: 'file', file: { filename: name, file_data } }
    }
    case 'documentSourceS3Location':
      return refuse('documentBlock with an S3 location')
  }
}

const mimeTypes: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  html: 'text/html',
  md: 'text/markdown',
  txt: 'text/plain',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
}

function text(value: string): ChatContentPart {
  return { type: 'text', text: value }
}

function dataUrl(mimeType: string, bytes: Uint8Array): string {
  return `data:${mimeType};base64,${Buffer.from(bytes).toString('base64')}`
}

function refuse(what: string): never {
  throw new OsmosisError(
    'invalid_request',
    `The policy speaks chat completions, which cannot carry a ${what}. Give it as text, as an image or as a document with its bytes.`,
  )
}
