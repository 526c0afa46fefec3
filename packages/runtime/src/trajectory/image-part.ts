import type { TrajectoryContent } from './atif.ts'

type ContentPart = Exclude<TrajectoryContent, string>[number]
type ImagePart = Extract<ContentPart, { type: 'image' }>

const mediaTypes: ReadonlySet<string> = new Set<ImagePart['source']['media_type']>([
  'image/jpeg',
  'image/png',
  'image/gif',
  'image/webp',
])

/**
 * The image of a message part of chat completions (`image_url`) or of the OpenAI Agents SDK (`input_image`). Its
 * path is the URL: an address, or the image itself as a data URL.
 *
 * @returns undefined for another part, and for a kind of image that documents cannot name
 */
export function toImagePart(part: unknown): ImagePart | undefined {
  const url = imageUrl(part)
  if (url === undefined) return undefined
  const mediaType = mediaTypeOf(url)
  if (!isMediaType(mediaType)) return undefined
  return { type: 'image', source: { media_type: mediaType, path: url } }
}

function imageUrl(part: unknown): string | undefined {
  if (typeof part !== 'object' || part === null) return undefined
  const { type, image_url: given, image = given } = part as Record<string, unknown>
  if (type !== 'image_url' && type !== 'input_image') return undefined
  const url = typeof image === 'string' ? image : (image as { url?: unknown } | undefined)?.url
  return typeof url === 'string' ? url : undefined
}

/** Addresses often do not say what they lead to. */
function mediaTypeOf(url: string): string {
  const [, given] = /^data:([^;,]*)/i.exec(url) ?? []
  if (given !== undefined) return given.toLowerCase().replace('image/jpg', 'image/jpeg')
  const [, ending = 'png'] = /\.([a-z]+)(?:[?#]|$)/i.exec(url) ?? []
  const mediaType = `image/${ending.toLowerCase().replace(/^jpg$/, 'jpeg')}`
  return isMediaType(mediaType) ? mediaType : 'image/png'
}

function isMediaType(mediaType: string): mediaType is ImagePart['source']['media_type'] {
  return mediaTypes.has(mediaType)
}
