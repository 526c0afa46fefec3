import { beginningOf, shownUrl } from '@osmosis/core/http'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

describe('the beginning of a text', () => {
  it('is the text itself when that fits', () => {
    for (const text of ['', 'short', 'é'.repeat(100), '€'.repeat(33)]) {
      expect(beginningOf(text, 200)).toBe(text)
    }
  })

  it('says how long all of it was', () => {
    const cut = beginningOf('x'.repeat(10_000), 200)
    expect(cut).toMatch(/^x{100,}… \[cut: 10000 characters in all\]$/)
    expect(cut).toHaveLength(198)
  })

  it('cut again says how long it was in the first place', () => {
    const once = beginningOf('x'.repeat(10_000), 2000)
    expect(beginningOf(once, 200)).toBe(beginningOf('x'.repeat(10_000), 200))
  })

  it('is never longer than allowed, and ends with a whole character', () => {
    const texts = fc.string({ unit: 'grapheme', minLength: 0, maxLength: 400 })
    fc.assert(
      fc.property(texts, fc.integer({ min: 60, max: 400 }), (text, limit) => {
        const started = beginningOf(text, limit)
        expect(Buffer.byteLength(started)).toBeLessThanOrEqual(limit)
        const said = started.replace(/… \[cut: \d+ characters in all\]$/, '')
        expect(Buffer.from(text).toString().startsWith(said)).toBe(true)
      }),
    )
  })
})

it.each([
  ['http://user:secret@host:8080/v1?key=secret#secret', 'http://host:8080/v1'],
  ['https://host/v1/', 'https://host/v1/'],
  ['http://user:secret#@host:8080', 'host:8080'],
  ['http://user:sec/ret@host', 'host'],
  ['ftp://user:secret@host', 'host'],
  ['user:secret@host:1/v1?key=secret', 'host:1/v1'],
  ['host:8080', 'host:8080'],
  ['host', 'host'],
])('of %s a message shows %s', (url, shown) => {
  expect(shownUrl(url)).toBe(shown)
})
