import { shownContent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

/** The beginnings of image files of 200 by 100 pixels. */
const headers = {
  png: '89504e470d0a1a0a0000000d49484452000000c8000000640806000000',
  gif: '474946383961c8006400f70000',
  // An APP0 segment precedes the frame header.
  jpeg: 'ffd8ffe000104a46494600010100000100010000ffc0001108006400c803012200',
  'webp (VP8)': '52494646240000005745425056503820180000003001009d012ac800640000',
  'webp (VP8L)': '524946461a000000574542505650384c0d0000002fc7c0180000',
  'webp (VP8X)': '524946462400000057454250565038580a00000000000000c70000630000',
}

function image(path: string): object {
  return { type: 'image', source: { media_type: 'image/png', path } }
}

describe('content that people see', () => {
  it('is its text, and each image as a name with its size instead of its bytes', () => {
    const dataUrl = `data:image/png;base64,${Buffer.from(headers.png, 'hex').toString('base64')}`
    const look = { type: 'text', text: 'Look:' }
    expect(shownContent([look, image(dataUrl), image(dataUrl)])).toEqual({
      text: 'Look:\n[image 200×100]\n[image 200×100]',
      images: [
        { name: 'image 200×100', dataUrl },
        { name: 'image 200×100', dataUrl },
      ],
    })
    expect(shownContent('plain')).toEqual({ text: 'plain', images: [] })
    expect(shownContent(null)).toEqual({ text: '', images: [] })
    expect(shownContent([{ type: 'audio' }, 7, null]).text).toBe('[audio]\n[part]\n[part]')
  })

  it.each(Object.entries(headers))('has the size of a %s', (kind, header) => {
    const base64 = Buffer.from(header, 'hex').toString('base64')
    const { text } = shownContent([image(`data:image/${kind.slice(0, 4)};base64,${base64}`)])
    expect(text).toBe('[image 200×100]')
  })

  it.each([
    '',
    'data:image/png;base64,',
    'data:image/png;base64,iVBORw0K',
    'data:image/png;base64,%%%',
  ])('names an image without a size when there is none to be read, as in %j', (path) => {
    expect(shownContent([image(path)]).text).toBe('[image]')
  })

  it('names the address of a linked image, which is not to be loaded', () => {
    expect(shownContent([image('https://images.test/cat.png')])).toEqual({
      text: '[image https://images.test/cat.png]',
      images: [{ name: 'image', dataUrl: undefined }],
    })
  })
})
