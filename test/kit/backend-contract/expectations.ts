import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'

import type { PolicyServer } from '@osmosis/testing'
import { expect } from 'vitest'

/** `what` begins the message of the failure. */
export function expectEqual<T>(
  what: string,
  received: unknown,
  expected: T,
): asserts received is T {
  expect(received, `${what}, as received`).toStrictEqual(expected)
}

export function expectMatch(what: string, received: unknown, expected: RegExp): void {
  expect(received, `${what}, as received`).toMatch(expected)
}

/** @param expected - what `holds` says */
export function expectThat(holds: boolean, expected: string, received: unknown): asserts holds {
  expect(holds, `${expected}, received ${inspect(received)}`).toBe(true)
}

/** How many model calls reached the policy. */
export function expectRequests({ requests }: PolicyServer, expected: number): void {
  expect(requests, 'requests to the policy').toHaveLength(expected)
}

/**
 * Waits for an event that must happen. `unless` is the work that causes it: when that ends first, the
 * wait fails.
 */
export async function eventually<T>(
  what: string,
  awaited: Promise<T>,
  unless: Promise<unknown> = new Promise(() => {}),
): Promise<T> {
  const ended = async (): Promise<never> => {
    const outcome = await unless
    // What is awaited may have happened in the same turn.
    await sleep(0)
    throw new Error(`expected ${what}, but the run ended with ${inspect(outcome)}`)
  }
  return Promise.race([awaited, ended()])
}
