import { requireRolloutContext } from '@osmosis/core'
import type { AdapterUnderTest, ContractRun } from '@osmosis/testing'

/** What an adapter promises holds for whatever is given the fetch of a sample. */
export function overFetch(
  run: (run: ContractRun) => Promise<string>,
  exempt: AdapterUnderTest['exempt'] = {},
): AdapterUnderTest {
  return {
    run,
    construct: (name) => requireRolloutContext('The agent').registerPolicySample(name),
    callPlaceholder: async () => run({ name: 'solver', prompt: 'go' }),
    exempt: {
      'serves-users': 'the client of the test is for rollouts alone',
      'logs-tool-errors': 'a framework without an adapter tells only the program what a tool threw',
      'grades-turn-limits': 'the loop of the test has none',
      'grades-wrong-output': 'the loop of the test has no structured output',
      ...exempt,
    },
    // the slow tests run more.
    concurrentRollouts: 5,
  }
}
