import { errorMessage, OsmosisError } from '@osmosis/core'
import { thrownBy } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

describe('thrownBy', () => {
  it('names the function of the user, the file and the line that threw', () => {
    expect(thrownBy('run()', thrown())).toMatch(
      /^thrown by run\(\) at \S*error-place\.test\.ts:\d+: no such order$/,
    )
  })

  it.each([
    ['text', 'out of stock', 'thrown by run(): out of stock'],
    ['nothing', undefined, 'thrown by run(): undefined'],
    ['an error without a stack', withStack(undefined), 'thrown by run(): no such order'],
    [
      'an error of an installed package alone',
      withStack('    at parse (/shop/node_modules/zod/index.js:3:7)'),
      'thrown by run(): no such order',
    ],
    [
      'an error of a module in a data URL',
      withStack(
        '    at run (data:text/javascript,run(/a/);:3:7)\n    at data:text/javascript,1:3:7',
      ),
      'thrown by run(): no such order',
    ],
    [
      'an error of evaluated code',
      withStack('    at eval (eval at run (file:///shop/main.ts:1:2), <anonymous>:3:7)'),
      'thrown by run(): no such order',
    ],
  ])('has no place for %s', (_, error, message) => {
    expect(thrownBy('run()', error)).toBe(message)
  })

  it.each([
    ['    at parse (/shop/node_modules/zod/index.js:3:7)\n    at price (/shop/main.ts:17:5)'],
    ['    at node:internal/timers:1:2\n    at async price (file:///shop/main.ts?v=1:17:5)'],
    ['    at async /shop/main.ts:17:5'],
  ])('takes the first frame in a file of the user: %j', (frames) => {
    expect(thrownBy('grade()', withStack(frames))).toBe(
      'thrown by grade() at /shop/main.ts:17: no such order',
    )
  })

  it('reads paths with brackets, and ignores a stack that the message quotes', () => {
    const quoting = new Error('failed:\n    at other (/other/child.js:1:2)')
    quoting.stack = `Error: ${quoting.message}\n    at price (/shop/(new)/main.ts:17:5)`
    expect(thrownBy('run()', quoting)).toMatch(
      /^thrown by run\(\) at \/shop\/\(new\)\/main\.ts:17: /,
    )
  })

  it('ignores frames of the code that runs rollouts', () => {
    const caller = new URL('../../src/execution/local-backend.ts', import.meta.url).pathname
    const error = withStack(
      `    at async LocalBackend (${caller}:9:9)\n    at async /shop/server.ts:1:1`,
    )
    expect(thrownBy('run()', error)).toBe('thrown by run(): no such order')
  })

  it('finds the place of an error that a framework has wrapped', () => {
    const cause = withStack('    at price (/shop/main.ts:17:5)')
    const wrapped = Object.assign(new Error('tool failed', { cause }), { stack: '' })
    expect(thrownBy('run()', wrapped)).toBe('thrown by run() at /shop/main.ts:17: tool failed')
  })

  it('does not change errors of the SDK about a policy, a deadline or a missing reward', () => {
    const policy = new OsmosisError('policy_http_error', 'The policy answered 500.')
    const all = [
      policy,
      new Error('gave up', { cause: policy }),
      new OsmosisError('timeout', 'The workflow exceeded its 5s deadline.'),
      Object.assign(new OsmosisError('missing_reward', 'no reward'), { stack: '' }),
    ]
    for (const error of all) expect(thrownBy('run()', error)).toBe(errorMessage(error))
  })

  it('names the place where the SDK was used wrongly', () => {
    const error = new OsmosisError('invalid_reward', 'A reward must be finite.')
    expect(thrownBy('grade()', error)).toMatch(
      /^thrown by grade\(\) at \S*error-place\.test\.ts:\d+: A reward must be finite\.$/,
    )
  })
})

function thrown(): Error {
  try {
    throw new Error('no such order')
  } catch (error) {
    return error as Error
  }
}

function withStack(frames: string | undefined): Error {
  const stack = frames === undefined ? undefined : `Error: no such order\n${frames}`
  return Object.defineProperty(new Error('no such order'), 'stack', { value: stack })
}
