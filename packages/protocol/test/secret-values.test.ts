import { SecretValues } from '@osmosis/protocol/http'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'

const printable = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCodePoint(code)),
  minLength: 8,
  maxLength: 80,
})

function hiding(...keys: string[]): SecretValues {
  const secrets = new SecretValues()
  secrets.add(...keys)
  return secrets
}

describe('a key', () => {
  it('is hidden as it is, in a URL, in JSON, in HTML and in base64', () => {
    const key = `sk/live+"5ö%~<&'>\\`
    const forms = [
      key,
      encodeURIComponent(key),
      encodeURIComponent(key).toLowerCase(),
      new URLSearchParams({ key }).toString().slice(4),
      encodeURIComponent(key).replaceAll('%2F', '/'),
      new URL(`http://${encodeURIComponent(key)}@host`).username,
      Object.assign(new URL('http://host'), { password: key }).password,
      encodeURI(key),
      encodeURI(key).replaceAll(/%../g, (hex) => hex.toLowerCase()),
      JSON.stringify(key).slice(1, -1),
      JSON.stringify(JSON.stringify(key)).slice(3, -3),
      'sk/live+&quot;5ö%~&lt;&amp;&#39;&gt;\\',
      Buffer.from(key).toString('base64'),
      Buffer.from(key).toString('base64url'),
    ]
    const secrets = hiding(key)
    for (const form of forms) {
      expect(secrets.redact(`<${form}>`)).toMatch(/^<\[redacted\][=\w]{0,2}>$/)
    }
  })

  it('is hidden within a longer value in base64, wherever it begins and ends there', () => {
    fc.assert(
      fc.property(printable, fc.string(), fc.string(), (key, before, after) => {
        const secrets = hiding(key)
        for (const encoding of ['base64', 'base64url'] as const) {
          const encoded = Buffer.from(before + key + after).toString(encoding)
          const left = secrets.redact(encoded)
          expect(left).toContain('[redacted]')
          // What is left of the key are the letters that it shares with its neighbours.
          expect(left.replace('[redacted]', '').length).toBeLessThanOrEqual(
            Math.ceil((Buffer.byteLength(before + after) * 4) / 3) + 8,
          )
        }
      }),
    )
  })

  it('is hidden in a text that arrives in pieces, and no piece waits that begins no key', () => {
    const piece = fc.oneof(
      fc.constantFrom('sk-abcdef', 'bcdefgh', 'sk-', 'abc', 'def'),
      fc.string(),
    )
    const secrets = hiding('sk-abcdef', 'sk-abcdefgh', 'bcdefgh')
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        let held = ''
        let shown = ''
        for (const more of pieces) {
          const text = held + more
          const end = secrets.settledLength(text)
          shown += secrets.redact(text.slice(0, end))
          held = text.slice(end)
          expect(held.length).toBeLessThan('sk-abcdefgh'.length * 2)
        }
        expect(shown + secrets.redact(held)).toBe(secrets.redact(pieces.join('')))
      }),
      { numRuns: runs(1000) },
    )
    expect(hiding('sk-abcdef').settledLength('a line\n')).toBe(7)
  })

  it('is hidden among hundreds', () => {
    fc.assert(
      fc.property(
        fc.array(printable, { minLength: 1, maxLength: 200 }),
        fc.string(),
        (keys, other) => {
          const secrets = hiding(...keys)
          const text = keys.map((key) => `${other}${key}`).join(' ')
          const left = secrets.redact(text)
          for (const key of keys) expect(left).not.toContain(key)
        },
      ),
    )
  })

  it('leaves no fragment at the end of a truncated text, and removes nothing else', () => {
    fc.assert(
      fc.property(
        fc.array(printable, { minLength: 1, maxLength: 20 }),
        fc.nat(80),
        (keys, room) => {
          const [key = ''] = keys
          const limit = 1000
          const end = '… [cut: 2000 characters in all]'
          const cutAt = limit - Buffer.byteLength(end)
          const before = '\n'.repeat(cutAt - (room % key.length))
          const text = (before + key).padEnd(2000, '\n')
          const left = hiding(...keys).redactError(text, limit)
          expect(left).toBe(`${'\n'.repeat(left.length - end.length)}${end}`)
          expect(left.length).toBeGreaterThanOrEqual(cutAt - key.length - 5)
        },
      ),
    )
  })
})
