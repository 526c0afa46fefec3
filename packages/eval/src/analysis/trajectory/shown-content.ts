/** An image of a message or result. */
export interface ShownImage {
  /** `image 200×100`, or `image` where its size is not known. */
  readonly name: string
  /** The image as a data URL; undefined for a linked image, which must not be loaded. */
  readonly dataUrl: string | undefined
}

/** A message or result as it is displayed. */
export interface ShownContent {
  /** Its text, with each image as its name in brackets: `[image 200×100]`. */
  readonly text: string
  readonly images: readonly ShownImage[]
}

/**
 * Converts a message or result for display. The bytes of images are never part of the text.
 *
 * @param content - as in a trajectory document: text, or parts of which some are images
 */
export function shownContent(content: unknown): ShownContent {
  if (typeof content === 'string') return { text: content, images: [] }
  const images: ShownImage[] = []
  const lines = (Array.isArray(content) ? content : []).map((part: unknown) => {
    const { type, text, source } = (part ?? {}) as {
      type?: unknown
      text?: unknown
      source?: { path?: unknown }
    }
    if (typeof text === 'string') return text
    if (type !== 'image') return `[${typeof type === 'string' ? type : 'part'}]`
    const path = typeof source?.path === 'string' ? source.path : ''
    const image = shownImage(path)
    images.push(image)
    return image.dataUrl === undefined && path !== '' ? `[image ${path}]` : `[${image.name}]`
  })
  return { text: lines.join('\n'), images }
}

function shownImage(path: string): ShownImage {
  const [, base64] = /^data:image\/[a-z]+;base64,(.*)$/is.exec(path) ?? []
  if (base64 === undefined) return { name: 'image', dataUrl: undefined }
  const size = imageSize(base64)
  return { name: size === undefined ? 'image' : `image ${size.join('×')}`, dataUrl: path }
}

type Size = readonly [width: number, height: number]

/** The size is in the first bytes, except in JPEG files, where camera data precedes it. Characters of base64. */
const headLength = 256 * 1024

/** Width and height in pixels, from the header of a PNG, GIF, WebP or JPEG file. */
function imageSize(base64: string): Size | undefined {
  try {
    const head = atob(
      base64
        .slice(0, headLength)
        .replace(/\s/g, '')
        .slice(0, headLength & ~3),
    )
    const bytes = Uint8Array.from(head, (letter) => letter.charCodeAt(0))
    const view = new DataView(bytes.buffer)
    if (head.startsWith('\u0089PNG')) return [view.getUint32(16), view.getUint32(20)]
    if (head.startsWith('GIF8')) return [view.getUint16(6, true), view.getUint16(8, true)]
    if (head.startsWith('RIFF') && head.startsWith('WEBP', 8)) return webpSize(head, view)
    if (head.startsWith('\u00ff\u00d8')) return jpegSize(view)
  } catch {
    // Not base64, or a truncated image.
  }
  return undefined
}

/** https://developers.google.com/speed/webp/docs/riff_container */
function webpSize(head: string, view: DataView): Size | undefined {
  switch (head.slice(12, 16)) {
    case 'VP8 ':
      return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff]
    case 'VP8L': {
      const bits = view.getUint32(21, true)
      return [(bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1]
    }
    case 'VP8X':
      return [(view.getUint32(24, true) & 0xffffff) + 1, (view.getUint32(26, true) >>> 8) + 1]
    default:
      return undefined
  }
}

/** The frame header is one of many segments (ITU-T T.81, B.2.2). */
function jpegSize(view: DataView): Size | undefined {
  for (let at = 2; at + 9 <= view.byteLength; at += 2 + view.getUint16(at + 2)) {
    const marker = view.getUint8(at + 1)
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
    if (isFrame) return [view.getUint16(at + 7), view.getUint16(at + 5)]
  }
  return undefined
}
