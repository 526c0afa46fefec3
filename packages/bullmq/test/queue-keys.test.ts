import { randomBytes } from 'node:crypto'

import { QueueKeys } from '@osmosis/bullmq'
import { expect, it } from 'vitest'

const value = { when: new Date(0), nan: Number.NaN, bytes: new Uint8Array([1]), text: 'secret-key' }
const key = (): Buffer => randomBytes(32)
const refused = expect.objectContaining({ code: 'invalid_config' })

it('opens sealed values of any kind', () => {
  for (const keys of [new QueueKeys(), new QueueKeys([key()])]) {
    expect(keys.open(keys.seal(value, 'r1 request'), 'r1 request')).toEqual(value)
  }
})

it('compresses large values', () => {
  for (const keys of [new QueueKeys(), new QueueKeys([key()])]) {
    const long = 'to be or not to be '.repeat(1_000)
    const blob = keys.seal(long, 'r1 request')
    expect(blob.length).toBeLessThan(long.length / 10)
    expect(keys.open(blob, 'r1 request')).toBe(long)
  }
})

it('seals with the first key of a file and opens with all of them', () => {
  const [older, newer] = [key(), key()]
  const before = QueueKeys.parse(older.toString('base64'))
  const rotated = QueueKeys.parse(`${newer.toString('base64')}\n${older.toString('base64')}\n`)
  expect(rotated.open(before.seal(value, 'p'), 'p')).toEqual(value)
  expect(() => before.open(rotated.seal(value, 'p'), 'p')).toThrow(refused)
})

it('refuses a value from another place, a changed value, and a value that was not sealed', () => {
  const keys = new QueueKeys([key()])
  const blob = keys.seal(value, 'r1 request')
  expect(() => keys.open(blob, 'r2 request')).toThrow(refused)
  const changed = Buffer.from(blob)
  changed[40] = (changed[40] ?? 0) ^ 1
  expect(() => keys.open(changed, 'r1 request')).toThrow(refused)
  expect(() => keys.open(new QueueKeys().seal(value, 'r1 request'), 'r1 request')).toThrow(refused)
  expect(() => new QueueKeys().open(blob, 'r1 request')).toThrow(refused)
})

it('reports the required form of a file of keys', () => {
  for (const text of ['', 'short', `${key().toString('base64')}\nshort`]) {
    expect(() => QueueKeys.parse(text)).toThrow(/openssl rand -base64 32/)
  }
})
