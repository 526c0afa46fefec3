import { RolloutContext } from '@osmosis/core'
import { afterEach, expect, it, vi } from 'vitest'

const written: string[] = []
const rollout = (options: { apiKey?: string; signal?: AbortSignal } = {}): RolloutContext => {
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0)
  return new RolloutContext({
    rolloutId: 'r1',
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    ...options,
  })
}

afterEach(() => {
  vi.restoreAllMocks()
  written.length = 0
})

it('what a tool throws is one line of JSON with the stacks of the error and of its causes', () => {
  const cause = new RangeError('connect\nrefused')
  const error = new TypeError('fetch failed', { cause })
  rollout().logToolError('search', error)
  expect(written).toHaveLength(1)
  expect(written[0]).toMatch(/^[^\n]+\n$/)
  expect(JSON.parse(written[0] ?? '')).toStrictEqual({
    level: 40,
    time: expect.any(Number),
    rollout_id: 'r1',
    tool: 'search',
    msg: 'The tool search threw: fetch failed',
    thrown: `${error.stack}\nCaused by: ${cause.stack}`,
  })
})

it.each([
  ['an error whose getters throw', Object.defineProperty(new Error('x'), 'stack', { get: fail })],
  ['a text', 'down'],
  ['an object without a prototype', Object.create(null)],
  ['an error that causes itself', Object.assign(new Error('again'), { cause: undefined })],
])('%s does not fail the rollout', (_, thrown) => {
  if (thrown instanceof Error && thrown.message === 'again') thrown.cause = thrown
  rollout().logToolError('search', thrown)
  expect(JSON.parse(written.join(''))).toMatchObject({ tool: 'search' })
})

it('a line has at most 8 KiB of each text, and never the key of the policy', () => {
  const apiKey = 'sk-policy-key'
  rollout({ apiKey }).logToolError('x'.repeat(100_000), new Error(apiKey.repeat(50_000)))
  expect(written.join('')).not.toContain(apiKey)
  expect(written.join('').length).toBeLessThan(3 * 9000)
})

it('a tool that throws at each call writes ten lines, and none when the rollout has ended', () => {
  const ending = new AbortController()
  const broken = rollout()
  for (let call = 0; call < 100; call += 1) broken.logToolError('search', new Error('down'))
  expect(written).toHaveLength(10)
  const ended = rollout({ signal: ending.signal })
  ending.abort()
  ended.logToolError('search', new Error('aborted'))
  expect(written).toHaveLength(10)
})

function fail(): never {
  throw new Error('not readable')
}
