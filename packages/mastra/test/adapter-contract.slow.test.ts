import { contractRules, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { streaming } from './contract-agents.ts'
import { isNewestMastra } from './running-mastra.ts'

const runner = { describe, it }

/** The rules of the contract that need many rollouts. */
const many = Object.assign(
  (name: string, body: () => Promise<void>): void => {
    if (name === contractRules['never-crosses']) runner.it(name, body, 600_000)
  },
  { skip: (): void => {} },
)

runAdapterContract({ ...runner, it: many }, 'stream', {
  ...streaming,
  // Separating many rollouts does not depend on the version, so only the newest version runs many.
  concurrentRollouts: isNewestMastra ? 100 : 20,
})
