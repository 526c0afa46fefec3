import dns from 'node:dns'

import { onTestFinished, vi } from 'vitest'

/**
 * Answers lookups of these names until the test ends: with the next list of addresses each time, and
 * with the last one from then on. A name without a list does not exist.
 *
 * @returns which of the names were looked up, in order
 */
export function resolveNames(names: Readonly<Record<string, readonly string[][]>>): string[] {
  const asked: string[] = []
  const real = dns.lookup
  const lookup = (...given: Parameters<typeof dns.lookup>): void => {
    const [name, , callback] = given as unknown as LookupCall
    const answers = names[name]
    if (answers === undefined) return real(...given)
    asked.push(name)
    const times = asked.filter((earlier) => earlier === name).length
    const found = answers[Math.min(times, answers.length) - 1]?.map((address) => ({
      address,
      family: address.includes(':') ? 6 : 4,
    }))
    const unknown = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' })
    queueMicrotask(() => callback(found ? null : unknown, found ?? []))
  }
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(lookup)
  onTestFinished(() => spy.mockRestore())
  return asked
}

/** For all addresses of a name. */
type LookupCall = [
  name: string,
  options: dns.LookupAllOptions,
  callback: (error: Error | null, found: dns.LookupAddress[]) => void,
]
