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
    exempt,
    // contract.slow.test.ts runs more.
    concurrentRollouts: 5,
  }
}

/** The same for a model of the AI SDK, as with `rolloutModel()` in the AI SDK itself. */
export function overModel(run: (run: ContractRun) => Promise<string>): AdapterUnderTest {
  return {
    ...overFetch(run, {
      'names-agents-without-calls': 'a model is known to the rollout from its first call on',
      'refuses-duplicates': 'models of one name are one sample',
    }),
    construct: () => requireRolloutContext('The agent'),
  }
}
