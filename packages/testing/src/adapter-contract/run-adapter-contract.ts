import { proveRule } from '../contract-expectations.ts'
import {
  type AdapterUnderTest,
  type ContractCase,
  type ContractRule,
  contractRules,
} from './adapter-rules.ts'
import { answerCases } from './answer-cases.ts'
import { failureCases } from './failure-cases.ts'
import { fidelityCases } from './fidelity-cases.ts'
import { identityCases } from './identity-cases.ts'
import { sampleCases } from './sample-cases.ts'

/** The part of a test runner that the suite needs; vitest and `node:test` both have it. */
export interface ContractTestRunner {
  describe(name: string, body: () => void): unknown
  readonly it: {
    (name: string, body: () => Promise<void>): unknown
    skip(name: string, body: () => Promise<void>): unknown
  }
}

const cases: Readonly<Record<ContractRule, ContractCase>> = {
  ...sampleCases,
  ...identityCases,
  ...fidelityCases,
  ...answerCases,
  ...failureCases,
}

/** What an adapter has to bring for a rule. */
const optionalMethods: Readonly<
  Partial<
    Record<
      ContractRule,
      'prepare' | 'runTwoTurns' | 'runStructured' | 'runWithFallback' | 'runOwnModel'
    >
  >
> = {
  'stays-in-its-rollout': 'prepare',
  'serves-users': 'runWithFallback',
  'sends-equal-requests': 'runOwnModel',
  'grades-turn-limits': 'runTwoTurns',
  'grades-wrong-output': 'runStructured',
  'reads-objects': 'runStructured',
}

/**
 * Declares one test per rule of {@link contractRules}, each against a policy server of its own on
 * the loopback interface. Every adapter passes this suite. Give each test 30 seconds: one of them
 * runs 800 agents. An error names the rule, what was expected and what was received.
 */
export function runAdapterContract(
  runner: ContractTestRunner,
  adapterName: string,
  adapter: AdapterUnderTest,
): void {
  runner.describe(`adapter contract: ${adapterName}`, () => {
    for (const [rule, sentence] of Object.entries(contractRules) as [ContractRule, string][]) {
      const method = optionalMethods[rule]
      const isMissing = method !== undefined && adapter[method] === undefined
      const reason = adapter.exempt?.[rule] ?? (isMissing ? `it has no ${method}` : undefined)
      const prove = async (): Promise<void> =>
        proveRule(rule, sentence, async () => cases[rule](adapter))
      if (reason === undefined) runner.it(sentence, prove)
      else runner.it.skip(`${sentence} (exempt: ${reason})`, prove)
    }
  })
}
