import { contractRules, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { streaming } from './contract-agents.ts'
import { isNewestSdk } from './running-sdk.ts'

const runner = { describe, it }

/** The rules of the contract that need many rollouts. */
const many = Object.assign(
  (name: string, body: () => Promise<void>): void => {
    if (name === contractRules['never-crosses']) runner.it(name, body, 600_000)
  },
  { skip: (): void => {} },
)

runAdapterContract({ ...runner, it: many }, 'streamText', {
  ...streaming,
  // Separating many rollouts does not depend on the version, so only the newest version runs many.
  concurrentRollouts: isNewestSdk ? 200 : 20,
})
