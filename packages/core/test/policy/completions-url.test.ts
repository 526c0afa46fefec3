import { completionsBaseUrl, completionsUrl } from '@osmosis/core/http'
import { expect, it } from 'vitest'

it.each([
  ['http://h', 'http://h/chat/completions', 'http://h/'],
  ['http://h/v1', 'http://h/v1/chat/completions', 'http://h/v1'],
  ['http://h/v1//', 'http://h/v1/chat/completions', 'http://h/v1'],
  ['http://h/v1/chat/completions/', 'http://h/v1/chat/completions', 'http://h/v1'],
  ['http://h/v1?key=a%20b', 'http://h/v1/chat/completions?key=a%20b', 'http://h/v1?key=a%20b'],
])('%s has its completions at %s, and the base URL %s', (given, completions, base) => {
  expect(completionsUrl(given).href).toBe(completions)
  expect(completionsBaseUrl(given).href).toBe(base)
  expect(completionsBaseUrl(completions).href).toBe(base)
})
