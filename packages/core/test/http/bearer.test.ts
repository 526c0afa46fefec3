import { assertApiKey, bearer, carriesKey } from '@osmosis/core/http'
import { expect, it } from 'vitest'

it('carries a key as a bearer, in any spelling of the word', () => {
  expect(carriesKey('Bearer secret', 'secret')).toBe(true)
  expect(carriesKey('bearer   secret ', 'secret')).toBe(true)
  expect(carriesKey('Bearer secre', 'secret')).toBe(false)
  expect(carriesKey('Basic secret', 'secret')).toBe(false)
})

it('takes the key alone only where that is allowed', () => {
  expect(carriesKey('secret', 'secret')).toBe(false)
  expect(carriesKey(' secret', 'secret', { bare: true })).toBe(true)
  expect(carriesKey('Bearer secret', 'secret', { bare: true })).toBe(true)
})

it.each([undefined, null, '', ' ', 'Bearer ', 'Bearer'])('takes %j for no key at all', (header) => {
  for (const key of ['', 'undefined', 'null']) {
    expect(carriesKey(header, key)).toBe(false)
    expect(carriesKey(header, key, { bare: true })).toBe(false)
  }
})

it('presents a key, and nothing without one', () => {
  expect(bearer('secret')).toStrictEqual({ authorization: 'Bearer secret' })
  for (const none of [undefined, null, '']) expect(bearer(none)).toStrictEqual({})
})

it('refuses keys that cannot be sent in a header, without repeating them', () => {
  expect(() => assertApiKey('')).toThrow('apiKey is empty')
  expect(() => assertApiKey('two words')).toThrow(/^apiKey must be visible ASCII(?!.*two words)/)
  const tooLong = 'k'.repeat(8193)
  expect(() => assertApiKey(tooLong)).toThrow(
    /^apiKey has 8193 characters, and at most 8192(?!.*kkk)/,
  )
  assertApiKey('k'.repeat(8192))
  assertApiKey('secret')
  assertApiKey(undefined)
})
