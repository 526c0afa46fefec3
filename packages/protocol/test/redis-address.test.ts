import {
  parseRedisAddress,
  redisAddressText,
  redisPlace,
  type RedisAddress,
} from '@osmosis/protocol/wire'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'

const plain = {
  tls: false,
  hosts: [{ host: 'h', port: 6379 }],
  name: undefined,
  user: undefined,
  password: undefined,
  database: 0,
}

describe('an address of a Redis', () => {
  it.each([
    ['redis://h', {}],
    ['rediss://h:6380', { tls: true, hosts: [{ host: 'h', port: 6380 }] }],
    ['redis://h/', {}],
    ['redis://h/3', { database: 3 }],
    ['redis://[::1]:7', { hosts: [{ host: '::1', port: 7 }] }],
    ['redis://10.0.0.1:6379/0', { hosts: [{ host: '10.0.0.1', port: 6379 }] }],
    ['redis://u@h', { user: 'u' }],
    ['redis://:p@h', { password: 'p' }],
    ['redis://u:@h', { user: 'u' }],
    [
      'redis://u:p@h:1/2',
      { user: 'u', password: 'p', hosts: [{ host: 'h', port: 1 }], database: 2 },
    ],
    ['redis://u:p%40q%2f%C3%A4@h', { user: 'u', password: 'p@q/ä' }],
    // As they are shown on the page of a provider.
    ['redis://u:50%off@h', { user: 'u', password: '50%off' }],
    ['redis://u:a/b?c#d@e:f@h', { user: 'u', password: 'a/b?c#d@e:f' }],
    ['redis://u:100%%zz%@h', { user: 'u', password: '100%%zz%' }],
    ['redis://u:ä €@h', { user: 'u', password: 'ä €' }],
    ['redis+sentinel://h/main', { hosts: [{ host: 'h', port: 26_379 }], name: 'main' }],
    [
      'rediss+sentinel://u:p@a:1,[::2]:3,c/my-primary.1/4',
      {
        tls: true,
        user: 'u',
        password: 'p',
        hosts: [
          { host: 'a', port: 1 },
          { host: '::2', port: 3 },
          { host: 'c', port: 26_379 },
        ],
        name: 'my-primary.1',
        database: 4,
      },
    ],
    [
      'redis+sentinel://u:a,b/c?d=e@h/0',
      { user: 'u', password: 'a,b/c?d=e', name: '0', hosts: [{ host: 'h', port: 26_379 }] },
    ],
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
    ['redis://a,b', 'has a part that is no host, no port and no number of a database'],
    ['redis://h:0', 'has the port 0'],
    ['redis+sentinel://h', 'has a part that is no list of Sentinels, no name of their primary'],
    ['redis+sentinel://h:1/', 'has a part that is no list of Sentinels, no name of their primary'],
    ['redis+sentinel://a,/main', 'has a part that is no list of Sentinels'],
    ['redis+sentinel:///main', 'has a part that is no list of Sentinels'],
    ['redis+sentinel://a:1;b:2/main', 'has a part that is no list of Sentinels'],
    ['redis+sentinel://h/main/x', 'has a part that is no list of Sentinels'],
    ['redis+sentinel://a:1,b:0/main', 'has the port 0'],
    ['redis+sentinel://a:1,b/main/0?sentinelPassword=p', 'has the parameter "sentinelPassword"'],
    ['sentinel://h/main', 'is not of the form redis://'],
    ['redis://h:65536', 'has the port 65536'],
  ])('%s is none', (text, problem) => {
    expect(parseRedisAddress(text)).toContain(problem)
  })

  it('is read again as it was written, whatever user and password are', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 })
    const host = fc.record({
      host: fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6()),
      port: fc.integer({ min: 1, max: 65_535 }),
    })
    const sentinels = fc.record({
      hosts: fc.array(host, { minLength: 1 }),
      name: fc.stringMatching(/^[\w.-]+$/),
    })
    const one = fc.record({ hosts: fc.tuple(host), name: fc.constant(undefined) })
    const login = fc.record({
      tls: fc.boolean(),
      user: fc.option(text, { nil: undefined }),
      password: fc.option(text, { nil: undefined }),
      database: fc.nat(99),
    })
    fc.assert(
      fc.property(login, fc.oneof(one, sentinels), (who, where) => {
        const address = { ...who, ...where } as RedisAddress
        expect(parseRedisAddress(redisAddressText(address))).toEqual(address)
        const place = parseRedisAddress(redisPlace(address))
        expect(place).toEqual({ ...address, user: undefined, password: undefined })
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
          hosts: [{ host: 'h', port: 1 }],
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
    const scheme = fc.constantFrom('redis', 'redis+sentinel')
    fc.assert(
      fc.property(scheme, secret, broken, (kind, password, rest) => {
        const read = parseRedisAddress(`${kind}://:${password}${rest}`)
        const told = typeof read === 'string' ? read : ''
        expect(told.replaceAll(/redis\S*:\/\/\S*/g, '')).not.toContain('x')
      }),
      { numRuns: runs(500) },
    )
  })
})
