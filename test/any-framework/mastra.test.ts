import { requireRolloutContext } from '@osmosis/core'
import { runAdapterContract } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { mastra, mastraFetch, mastraStream } from './agents/mastra-agent.ts'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

for (const [name, run] of Object.entries({ mastra, mastraStream, mastraFetch })) {
  const isRegistered = run === mastraFetch
  runAdapterContract({ describe, it }, name, {
    run,
    construct: (sample) => {
      const rollout = requireRolloutContext('The agent')
      if (isRegistered) rollout.registerPolicySample(sample)
    },
    callPlaceholder: async () => run({ name: 'solver', prompt: 'go' }),
    // As with rolloutModel() in the AI SDK itself.
    exempt: isRegistered
      ? {}
      : {
          'names-unasked': 'a model is known to the rollout from its first call on',
          'refuses-duplicates': 'models of one name are one sample',
        },
    concurrentRollouts: 50,
  })
}
