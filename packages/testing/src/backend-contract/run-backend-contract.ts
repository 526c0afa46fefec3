import { proveRule } from '../contract-expectations.ts'
import {
  backendRules,
  type BackendCase,
  type BackendRule,
  type BackendUnderTest,
  type ClosableBackend,
} from './backend-rules.ts'
import type { ContractEntrypoint } from './contract-entrypoints.ts'
import { endingCases } from './ending-cases.ts'
import { loadCases } from './load-cases.ts'
import { outcomeCases } from './outcome-cases.ts'
import { sampleCases } from './sample-cases.ts'

/** The part of a test runner that the suite needs. */
export interface BackendTestRunner {
  describe(name: string, body: () => void): unknown
  it(name: string, body: () => Promise<void>): unknown
  afterAll(body: () => Promise<void>): unknown
}

const cases: Readonly<Record<BackendRule, BackendCase>> = {
  ...outcomeCases,
  ...sampleCases,
  ...endingCases,
  ...loadCases,
}

/**
 * Declares one test per rule of {@link backendRules}. Every backend passes this suite, in this process
 * or in others. It closes the backends after the last test. An error names the rule, what was expected
 * and what was received.
 */
export function runBackendContract(
  runner: BackendTestRunner,
  backendName: string,
  backend: BackendUnderTest,
): void {
  runner.describe(`backend contract: ${backendName}`, () => {
    const shared = new Map<ContractEntrypoint, Promise<ClosableBackend>>()
    const opened: Promise<ClosableBackend>[] = []
    const opening: Parameters<BackendCase>[0] = async (entrypoint, { fresh = false } = {}) => {
      const known = fresh ? undefined : shared.get(entrypoint)
      const ready = known ?? backend.open(entrypoint)
      if (known === undefined) opened.push(ready)
      if (!fresh) shared.set(entrypoint, ready)
      return ready
    }
    for (const [rule, sentence] of Object.entries(backendRules) as [BackendRule, string][]) {
      runner.it(sentence, async () => proveRule(rule, sentence, async () => cases[rule](opening)))
    }
    runner.afterAll(async () => {
      for (const one of opened) await (await one).close?.()
    })
  })
}
