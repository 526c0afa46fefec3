import { afterAll, describe, expect, it } from 'vitest'

import {
  backendRules,
  type BackendCase,
  type BackendRule,
  type BackendUnderTest,
  type ClosableBackend,
} from './backend-rules.ts'
import { concurrencyCases } from './concurrency-cases.ts'
import type { ContractEntrypoint } from './contract-entrypoints.ts'
import { endingCases } from './ending-cases.ts'
import { outcomeCases } from './outcome-cases.ts'
import { sampleCases } from './sample-cases.ts'

const cases: Readonly<Record<BackendRule, BackendCase>> = {
  ...outcomeCases,
  ...sampleCases,
  ...endingCases,
  ...concurrencyCases,
}

/**
 * Declares one test per rule of {@link backendRules}. Every backend passes this suite, in this process or in others.
 *
 * @param without - rules that this run leaves out
 */
export function runBackendContract(
  backendName: string,
  backend: BackendUnderTest,
  without: readonly BackendRule[] = [],
): void {
  describe(`backend contract: ${backendName}`, () => {
    const shared = new Map<ContractEntrypoint, Promise<ClosableBackend>>()
    const opened: Promise<ClosableBackend>[] = []
    const opening: Parameters<BackendCase>[0] = async (entrypoint, { fresh = false } = {}) => {
      const known = fresh ? undefined : shared.get(entrypoint)
      const ready = known ?? backend.open(entrypoint)
      if (known === undefined) opened.push(ready)
      if (!fresh) shared.set(entrypoint, ready)
      return ready
    }
    const rules = Object.entries(backendRules) as [BackendRule, string][]
    const kept = rules.flatMap(([rule, sentence]) =>
      without.includes(rule) ? [] : [[sentence, rule] as const],
    )
    it.each(kept)('%s', async (_, rule) => {
      expect.hasAssertions()
      await cases[rule](opening)
    })
    afterAll(async () => {
      for (const one of opened) await (await one).close?.()
    })
  })
}
