import { isLoopback } from '@osmosis/core/http'
import { expect, it } from 'vitest'

it.each([
  'localhost',
  'LocalHost',
  '127.0.0.1',
  '127.8.9.10',
  '::1',
  '[::1]',
  '::1%lo',
  '0:0:0:0:0:0:0:1',
  '::ffff:127.0.0.1',
])('takes %s for this machine', (host) => {
  expect(isLoopback(host)).toBe(true)
})

it.each(['', '0.0.0.0', '::', '10.0.0.1', '127.0.0.1234', '127.0.0.1.test', 'localhost.test'])(
  'takes "%s" for a host that other machines may be',
  (host) => {
    expect(isLoopback(host)).toBe(false)
  },
)
