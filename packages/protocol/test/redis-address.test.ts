import { parseRedisAddress, redisAddressText, redisPlace } from '@osmosis/protocol/wire'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'

const plain = {
  tls: false,
  host: 'h',
  port: 6379,
  user: undefined,
  password: undefined,
  database: 0,
}

describe('an address of a Redis', () => {
  it.each([
    ['redis://h', {}],
    ['rediss://h:6380', { tls: true, port: 6380 }],
    ['redis://h/', {}],
    ['redis://h/3', { database: 3 }],
    ['redis://[::1]:7', { host: '::1', port: 7 }],
    ['redis://10.0.0.1:6379/0', { host: '10.0.0.1' }],
    ['redis://u@h', { user: 'u' }],
    ['redis://:p@h', { password: 'p' }],
    ['redis://u:@h', { user: 'u' }],
    ['redis://u:p@h:1/2', { user: 'u', password: 'p', port: 1, database: 2 }],
    ['redis://u:p%40q%2f%C3%A4@h', { user: 'u', password: 'p@q/ä' }],
    // As they are shown on the page of a provider.
    ['redis://u:50%off@h', { user: 'u', password: '50%off' }],
    ['redis://u:a/b?c#d@e:f@h', { user: 'u', password: 'a/b?c#d@e:f' }],
    ['redis://u:100%%zz%@h', { user: 'u', password: '100%%zz%' }],
    ['redis://u:ä €@h', { user: 'u', password: 'ä €' }],
  ])('%s', (text, expected) => {
    expect(parseRedisAddress(text)).toEqual({ ...plain, ...expected })
  })

  it.each([
    ['http://h', 'is not of the form redis://'],
    ['h:6379', 'is not of the form redis://'],
    ['redis:h', 'is not of the form redis://'],
    ['redis://h?sentinels=a:1,b:2', 'has the parameter "sentinels", and takes none'],
    ['redis://u:p?q@h:1/0?family=6', 'has the parameter "family", and takes none'],
    ['redis://', 'has a part that is no host'],
    ['redis://h:port', 'has a part that is no host, no port and no number of a database'],
    ['redis://h/name', 'has a part that is no host, no port and no number of a database'],
    ['redis://h/1/2', 'has a part that is no host, no port and no number of a database'],
    ['redis://h#part', 'has a part that is no host, no port and no number of a database'],
    ['redis://a:1,b:2/name', 'has a part that is no host, no port and no number of a database'],
    ['redis://h:0', 'has the port 0'],
    ['redis://h:65536', 'has the port 65536'],
  ])('%s is none', (text, problem) => {
    expect(parseRedisAddress(text)).toContain(problem)
  })

  it('is read again as it was written, whatever user and password are', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 })
    const address = fc.record({
      tls: fc.boolean(),
      host: fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6()),
      port: fc.integer({ min: 1, max: 65_535 }),
      user: fc.option(text, { nil: undefined }),
      password: fc.option(text, { nil: undefined }),
      database: fc.nat(99),
    })
    fc.assert(
      fc.property(address, (one) => {
        expect(parseRedisAddress(redisAddressText(one))).toEqual(one)
        const place = parseRedisAddress(redisPlace(one))
        expect(place).toEqual({ ...one, user: undefined, password: undefined })
      }),
      { numRuns: runs(500) },
    )
  })

  it('has every password that somebody pastes, but for encoded characters', () => {
    const pasted = fc
      .string({ unit: 'grapheme', minLength: 1 })
      .filter((text) => !/%[\da-f]{2}/i.test(text))
    fc.assert(
      fc.property(pasted, (password) => {
        expect(parseRedisAddress(`redis://u:${password}@h:1`)).toMatchObject({
          password,
          host: 'h',
        })
      }),
      { numRuns: runs(500) },
    )
  })

  it('that is none is never repeated with a piece of its login', () => {
    const secret = fc.string({
      unit: fc.constantFrom('x', '/', '?', '#', '%', ':', '='),
      minLength: 3,
    })
    const broken = fc.constantFrom('@h?name=1', '@h:port', '@h/a', '@', '')
    fc.assert(
      fc.property(secret, broken, (password, rest) => {
        const read = parseRedisAddress(`redis://:${password}${rest}`)
        const told = typeof read === 'string' ? read : ''
        expect(told.replaceAll(/rediss?:\/\/\S*/g, '')).not.toContain('x')
      }),
      { numRuns: runs(500) },
    )
  })
})
