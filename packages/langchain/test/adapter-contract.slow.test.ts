import { contractRules, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { agent, streamedGraph } from './contract-agents.ts'

const runner = { describe, it }

/** The rules of the contract that need many rollouts. */
const many = Object.assign(
  (name: string, body: () => Promise<void>): void => {
    if (name === contractRules['never-crosses']) runner.it(name, body, 600_000)
  },
  { skip: (): void => {} },
)

const concurrentRollouts = 100
runAdapterContract({ ...runner, it: many }, 'createAgent', { ...agent, concurrentRollouts })
runAdapterContract({ ...runner, it: many }, 'a streamed graph', {
  ...streamedGraph,
  concurrentRollouts,
})
