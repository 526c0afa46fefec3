import { setTimeout as sleep } from 'node:timers/promises'
import { inspect, isDeepStrictEqual } from 'node:util'

import type { PolicyServer } from './policy-server.ts'

/** A rule does not hold. Test runners show the difference of `actual` and `expected`. */
class ContractError extends Error {
  override readonly name = 'ContractError'
  readonly actual: unknown
  readonly expected: unknown

  constructor(message: string, actual?: unknown, expected?: unknown) {
    super(message)
    this.actual = actual
    this.expected = expected
  }
}

/** How long a case waits for one thing. Seconds. */
const limitSeconds = 20

/** @throws ContractError that names the first difference */
export function expectEqual<T>(
  what: string,
  received: unknown,
  expected: T,
): asserts received is T {
  if (isDeepStrictEqual(received, expected)) return
  const different = firstDifference(expected, received)
  const place = different.path === '' ? what : `${what} at ${different.path.replace(/^\./, '')}`
  fail(
    `expected ${place} to be ${show(different.expected)}, received ${show(different.received)}`,
    received,
    expected,
  )
}

export function expectMatch(what: string, received: unknown, expected: RegExp): void {
  if (typeof received === 'string' && expected.test(received)) return
  fail(
    `expected ${what} to match ${String(expected)}, received ${show(received)}`,
    received,
    expected,
  )
}

/** @param expected - what `holds` says, to follow "expected" */
export function expectThat(holds: boolean, expected: string, received: unknown): asserts holds {
  if (!holds) fail(`expected ${expected}, received ${show(received)}`, received, expected)
}

/** How many model calls reached the policy. */
export function expectRequests({ requests }: PolicyServer, expected: number): void {
  if (requests.length === expected) return
  const ids = requests.map(({ headers }) => show(headers['x-sample-id'])).slice(0, 10)
  const detail = ids.length === 0 ? '' : ` (x-sample-id ${ids.join(', ')})`
  const noun = expected === 1 ? 'request' : 'requests'
  fail(
    `expected ${expected} ${noun} to the policy, received ${requests.length}${detail}`,
    requests.length,
    expected,
  )
}

/** Resolves with the error that `running` rejects with. */
export async function expectRejection(what: string, running: Promise<unknown>): Promise<unknown> {
  const [settled] = await Promise.allSettled([running])
  if (settled.status === 'rejected') return settled.reason
  return fail(
    `expected ${what} to reject, received the result ${show(settled.value)}`,
    settled.value,
  )
}

/**
 * Waits for an event that must happen. `unless` is the work that causes it: when that ends first, the
 * wait fails.
 */
export async function eventually<T>(
  what: string,
  awaited: Promise<T>,
  unless?: Promise<unknown>,
): Promise<T> {
  const timer = new AbortController()
  const late = sleep(limitSeconds * 1000, undefined, { signal: timer.signal }).then(
    () => `nothing within ${limitSeconds} seconds`,
  )
  const ended = async (): Promise<string> => {
    const [settled] = await Promise.allSettled([unless])
    // What is awaited may have happened in the same turn.
    await sleep(0)
    const outcome: unknown = settled.status === 'fulfilled' ? settled.value : settled.reason
    return `the end of the run with ${show(outcome)}`
  }
  const missing = unless === undefined ? late : Promise.race([late, ended()])
  const never = missing.then((received) => fail(`expected ${what}, received ${received}`))
  try {
    return await Promise.race([awaited, never])
  } finally {
    never.catch(() => {})
    timer.abort()
  }
}

/** Runs a case; its error names the rule. */
export async function proveRule(
  id: string,
  sentence: string,
  prove: () => Promise<void>,
): Promise<void> {
  const rule = `rule "${sentence}" (${id})`
  try {
    await prove()
  } catch (error) {
    if (!(error instanceof ContractError)) {
      throw new Error(`${rule}: expected no error, received ${show(error)}`, { cause: error })
    }
    error.message = `${rule}: ${error.message}`
    throw error
  }
}

function fail(message: string, actual?: unknown, expected?: unknown): never {
  throw new ContractError(message, actual, expected)
}

function show(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`
  if (value === undefined) return 'nothing'
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : inspect(value, { breakLength: Infinity, depth: 6 })
  return text.length > 400 ? `${text.slice(0, 400)}…` : text
}

interface Difference {
  /** Like `[1].content`; empty for the whole value. */
  readonly path: string
  readonly expected: unknown
  readonly received: unknown
}

/** Where two unequal values differ first, as deep as both have the same keys. */
function firstDifference(expected: unknown, received: unknown): Difference {
  const whole = { path: '', expected, received }
  if (!isPlain(expected) || !isPlain(received)) return whole
  if (Array.isArray(expected) !== Array.isArray(received)) return whole
  if (!isDeepStrictEqual(Object.keys(expected).toSorted(), Object.keys(received).toSorted()))
    return whole
  for (const [key, value] of Object.entries(expected)) {
    if (isDeepStrictEqual(value, received[key])) continue
    const inner = firstDifference(value, received[key])
    const step = Array.isArray(expected) ? `[${key}]` : `.${key}`
    return { ...inner, path: `${step}${inner.path}` }
  }
  return whole
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
