import { contractRules, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { openaiAgents } from './contract-agents.ts'
import { isNewestSdk } from './running-sdk.ts'

const runner = { describe, it }

/** Of the contract what takes many rollouts. */
const many = Object.assign(
  (name: string, body: () => Promise<void>): void => {
    if (name === contractRules['never-crosses']) runner.it(name, body, 600_000)
  },
  { skip: (): void => {} },
)

runAdapterContract({ ...runner, it: many }, 'openai-agents', {
  ...openaiAgents,
  // Keeping many apart does not depend on the version: the newest runs most.
  concurrentRollouts: isNewestSdk ? 200 : 20,
})
