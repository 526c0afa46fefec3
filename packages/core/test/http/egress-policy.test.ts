import { EgressPolicy, type EgressOptions } from '@osmosis/core/http'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { addressForms, runs } from '../../../../test/kit/index.ts'

const forbidden = 'it leads to a link-local, multicast, unspecified or metadata address'
const ofPrivate = 'it leads to a private address, and those are refused'
const unlisted = 'its host is not among the allowed ones'

const everywhere = EgressPolicy.of()
const publicOnly = EgressPolicy.of({ privateAddresses: 'refuse' })

/** The reason, or "allowed". */
function verdict(policy: EgressPolicy, host: string): string {
  return policy.refusal(`http://${host}:8080/v1`) ?? 'allowed'
}

function listing(...allowedHosts: string[]): EgressPolicy {
  return EgressPolicy.of({ allowedHosts, privateAddresses: 'refuse' })
}

describe.each(addressForms)('$host, which is $kind,', ({ host, kind }) => {
  it('is judged by where it leads', () => {
    const reasons = { forbidden, private: ofPrivate, public: 'allowed' }
    expect(verdict(everywhere, host)).toBe(kind === 'forbidden' ? forbidden : 'allowed')
    expect(verdict(publicOnly, host)).toBe(reasons[kind])
    expect(verdict(listing('trainer'), host)).toBe(kind === 'forbidden' ? forbidden : unlisted)
    expect(verdict(listing('*'), host)).toBe(reasons[kind])
  })

  it('is allowed where it is listed, unless no list can allow it', () => {
    const listed = listing('0.0.0.0/0', '[::/0]', 'localhost', 'policy.localhost', 'example.com')
    expect(verdict(listed, host)).toBe(kind === 'forbidden' ? forbidden : 'allowed')
  })
})

const policies = [
  everywhere,
  publicOnly,
  listing('10.0.0.0/8', '127.0.0.1:8080', '169.254.0.0/16', '[2000::/3]:*', '[fc00::]:8080'),
]

describe('all spellings of an address', () => {
  it('have one verdict in IPv4, and as IPv4 mapped to IPv6', () => {
    const special = fc.constantFrom(127, 10, 169, 100, 192, 172, 0, 224, 255)
    const octet = fc.nat(255)
    const first = fc.oneof(special, octet)
    const second = fc.oneof(fc.constantFrom(254, 168, 16, 64, 0), octet)
    fc.assert(
      fc.property(
        fc.tuple(first, second, octet, octet),
        fc.infiniteStream(fc.nat(99)),
        (quad, random) => {
          const next = (n: number): number => (random.next().value as number) % n
          for (const policy of policies) {
            const expected = verdict(policy, quad.join('.'))
            for (const spelling of [ipv4Spelling(quad, next), mappedSpelling(quad, next)]) {
              expect([spelling, verdict(policy, spelling)]).toStrictEqual([spelling, expected])
            }
          }
        },
      ),
      { numRuns: runs(150) },
    )
  })

  it('have one verdict in IPv6', () => {
    const group = fc.oneof(
      fc.constantFrom(0, 0, 0, 0xfe80, 0xfd00, 0xff02, 0x2002, 0x64, 0xff9b),
      fc.nat(0xffff),
    )
    const address = fc.array(group, { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(address, fc.infiniteStream(fc.nat(99)), (groups, random) => {
        const next = (n: number): number => (random.next().value as number) % n
        const plain = `[${groups.map((bits) => bits.toString(16)).join(':')}]`
        const spelling = ipv6Spelling(groups, next)
        for (const policy of policies) {
          const expected = verdict(policy, plain)
          expect([spelling, verdict(policy, spelling)]).toStrictEqual([spelling, expected])
        }
      }),
      { numRuns: runs(150) },
    )
  })
})

function ipv4Spelling(quad: readonly number[], next: (n: number) => number): string {
  const parts = 1 + next(4)
  const head = quad.slice(0, parts - 1)
  const tail = quad.slice(parts - 1).reduce((bits, octet) => bits * 256 + octet, 0)
  const written = [...head, tail].map((value) => {
    const text = [String(value), `0${value.toString(8)}`, `0x${value.toString(16)}`][next(3)] ?? ''
    return Array.from(text, (char) => {
      if (next(6) === 0 && /\d/.test(char)) return String.fromCodePoint(0xff10 + Number(char))
      return next(6) === 0 ? char.toUpperCase() : char
    }).join('')
  })
  const dot = ['.', '。', '．', '%2e'][next(4)] ?? '.'
  return `${written.join(dot)}${next(2) === 0 ? dot : ''}`
}

function mappedSpelling(quad: readonly number[], next: (n: number) => number): string {
  const hex = (high = 0, low = 0): string => (high * 256 + low).toString(16)
  const tail = next(2) === 0 ? quad.join('.') : `${hex(quad[0], quad[1])}:${hex(quad[2], quad[3])}`
  const text = `${['::', '0::', '0:0:0:0:0:', '0000:0::'][next(4)]}ffff:${tail}`
  return `[${next(2) === 0 ? text.toUpperCase() : text}]`
}

function ipv6Spelling(groups: readonly number[], next: (n: number) => number): string {
  const written = groups.map((bits) => {
    const hex = bits.toString(16).padStart(next(2) === 0 ? 4 : 1, '0')
    return next(2) === 0 ? hex.toUpperCase() : hex
  })
  const from = groups.indexOf(0)
  if (from < 0 || next(2) === 0) return `[${written.join(':')}]`
  let to = from
  while (groups[to] === 0) to += 1
  return `[${written.slice(0, from).join(':')}::${written.slice(to).join(':')}]`
}

describe('allowed hosts', () => {
  const refusal = (url: string, ...allowedHosts: string[]): string | undefined =>
    EgressPolicy.of({ allowedHosts }).refusal(url)

  it.each([
    ['http://trainer/', 'trainer'],
    ['http://my_trainer-1/', 'my_trainer-1'],
    ['http://trainer:9000/', 'trainer:*'],
    ['http://TRAINER.:80/', 'Trainer:80'],
    ['https://trainer/', 'trainer:443'],
    ['https://a.example.com/', '*.example.com'],
    ['https://a.b.example.com./', '*.Example.COM.:443'],
    ['https://bücher.example/', 'xn--bcher-kva.example'],
    ['https://xn--bcher-kva.example/', 'bücher.example'],
    ['http://10.0.0.5:8080/', '10.0.0.5:8080'],
    ['http://0xa000005:8080/', '10.0.0.5:8080'],
    ['http://[::ffff:10.0.0.5]:8080/', '10.0.0.5:8080'],
    ['http://10.1.2.3/', '10.0.0.0/8'],
    ['http://10.1.2.3:81/', '10.0.0.0/8:81'],
    ['http://[FD00:0::1]/', '[fd00::1]'],
    ['http://[fd00::2]:81/', '[fd00::/8]:81'],
    ['http://anything:81/', '*:81'],
    // Its addresses may be in the subnet: known when it is connected to.
    ['http://trainer/', '10.0.0.0/8'],
  ])('let %s pass as %s', (url, pattern) => {
    expect(refusal(url, pattern)).toBeUndefined()
    expect(refusal(url, 'elsewhere', pattern)).toBeUndefined()
  })

  it.each([
    ['http://trainer:81/', 'trainer:80'],
    ['https://trainer/', 'trainer:80'],
    ['http://trainer/', '10.0.0.0/8:81'],
    ['http://example.com/', '*.example.com'],
    ['http://badexample.com/', '*.example.com'],
    ['http://example.com.evil/', '*.example.com'],
    ['http://trainer@evil/', 'trainer'],
    ['http://evil/trainer', 'trainer'],
    ['http://11.1.2.3/', '10.0.0.0/8'],
    ['http://[fe00::1]/', '[fd00::/8]'],
    ['http://127.0.0.2/', '127.0.0.1'],
    ['http://localhost/', '10.0.0.0/8'],
  ])('refuse %s with %s', (url, pattern) => {
    expect(refusal(url, pattern)).toBe(unlisted)
  })

  it('refuse everything when there are none', () => {
    expect(refusal('http://8.8.8.8/')).toBe(unlisted)
    expect(refusal('http://trainer/')).toBe(unlisted)
  })

  it('name a private address by its name, its address or its subnet, and not by a wildcard', () => {
    expect(verdict(listing('*.localhost'), 'policy.localhost')).toBe(ofPrivate)
    expect(verdict(listing('policy.localhost'), 'policy.localhost')).toBe('allowed')
    expect(verdict(listing('[::1]'), 'policy.localhost')).toBe('allowed')
    expect(verdict(listing('127.0.0.0/8'), '127.1')).toBe('allowed')
  })

  it.each([
    '',
    ' ',
    'http://trainer',
    'trainer/v1',
    'trainer:0',
    'trainer:65536',
    'trainer:http',
    'user@trainer',
    'fd00::1',
    '[fd00::1',
    '[trainer]',
    '[fd00::/129]',
    '10.0.0.0/33',
    '10.0.0.256',
    '*.',
    '**.example.com',
    'a.*.example.com',
    'ex*.com',
    '*.10',
    '*example.com',
    'trainer,other',
    '*.example.com,trainer',
    '$TRAINER',
    "'trainer'",
    '.example.com',
    'example.com..',
    'a..b',
    '--no-private-hosts',
    7 as unknown as string,
  ])('cannot be %j', (pattern) => {
    expect(() => EgressPolicy.of({ allowedHosts: [pattern] })).toThrow(
      expect.objectContaining({ code: 'invalid_config' }) as Error,
    )
  })

  it('come as a list, with a word about private addresses', () => {
    const refused = [
      [
        { allowedHosts: 'trainer' },
        `allowedHosts must be a list of hosts, such as ['trainer:8080', '*.example.com'], got "trainer".`,
      ],
      [{ privateAddresses: 'no' }, `privateAddresses must be 'allow' or 'refuse', got "no".`],
    ] as const
    for (const [options, message] of refused) {
      expect(() => EgressPolicy.of(options as unknown as EgressOptions)).toThrow(
        expect.objectContaining({ code: 'invalid_config', message }) as Error,
      )
    }
  })
})
