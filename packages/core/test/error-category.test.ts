import assert from 'node:assert'

import { errorCategory, errorMessage, OsmosisError } from '@osmosis/core'
import { expect, it } from 'vitest'
import { z } from 'zod'

const unreadable = new Proxy(new Error(), {
  get: () => {
    throw new Error('not to be read')
  },
})

function thrownBy(fn: () => unknown): unknown {
  try {
    fn()
  } catch (error) {
    return error
  }
  return undefined
}

it.each<[string, unknown, string]>([
  ['a deadline of ours', new OsmosisError('timeout', 'late'), 'timeout'],
  ['a TimeoutError of user code', new DOMException('late', 'TimeoutError'), 'timeout'],
  ['a duplicate sample', new OsmosisError('duplicate_sample', 'twice'), 'validation_error'],
  ['a TypeError', new TypeError('x is not a function'), 'validation_error'],
  ['a RangeError', new RangeError('out of range'), 'validation_error'],
  ['a SyntaxError', thrownBy(() => JSON.parse('{')), 'validation_error'],
  ['an AssertionError', thrownBy(() => assert.strictEqual(1, 2)), 'validation_error'],
  ['a ZodError', thrownBy(() => z.string().parse(1)), 'validation_error'],
  [
    'a refusal of the policy',
    new OsmosisError('policy_http_error', '401', { status: 401 }),
    'http_error',
  ],
  ['a cut stream', new OsmosisError('policy_stream_error', 'cut'), 'http_error'],
  [
    'a refusal of the policy that a framework wrapped',
    new Error('model failed', { cause: new OsmosisError('policy_unreachable', 'down') }),
    'http_error',
  ],
  [
    'an API error with a status',
    Object.assign(new Error('rate limited'), { status: 429 }),
    'http_error',
  ],
  [
    'a refused connection',
    Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
    'http_error',
  ],
  [
    'a failed fetch',
    new TypeError('fetch failed', {
      cause: Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
    }),
    'http_error',
  ],
  ['a plain error', new Error('boom'), 'agent_error'],
  ['a code of another version', new OsmosisError('constructor' as 'timeout', 'new'), 'agent_error'],
  ['a wrapped TypeError', new Error('tool failed', { cause: new TypeError('x') }), 'agent_error'],
  ['a missing file', Object.assign(new Error('ENOENT'), { code: 'ENOENT' }), 'agent_error'],
  ['a cancellation', new OsmosisError('cancelled', 'cancelled'), 'agent_error'],
  [
    'a failure of the policy in the words of OpenAI',
    Object.assign(new Error('x'), { code: 'policy_stream_error' }),
    'http_error',
  ],
  [
    'a failure of the policy in the words of Anthropic',
    Object.assign(new Error('x'), {
      error: { type: 'error', error: { type: 'api_error', code: 'policy_stream_error' } },
    }),
    'http_error',
  ],
  [
    'a code of another service',
    Object.assign(new Error('x'), { code: 'policy_violation' }),
    'agent_error',
  ],
  [
    'a code that means something else there',
    Object.assign(new Error('x'), { code: 'timeout' }),
    'agent_error',
  ],
  ['a thrown value that is not an error', 'boom', 'agent_error'],
  ['something that throws when it is looked at', unreadable, 'agent_error'],
])('sorts %s', (_what, error, category) => {
  expect(errorCategory(error)).toBe(category)
})

it('says the message of an error, or its class when it has none', () => {
  class Unlucky extends Error {}
  expect(errorMessage(new Error('boom'))).toBe('boom')
  expect(errorMessage(new Unlucky())).toBe('Unlucky')
  expect(errorMessage('boom')).toBe('boom')
  expect(errorMessage(undefined)).toBe('undefined')
})

it('does not loop over errors that cause each other', () => {
  const first = new Error('first')
  first.cause = new Error('second', { cause: first })
  expect(errorCategory(first)).toBe('agent_error')
})
