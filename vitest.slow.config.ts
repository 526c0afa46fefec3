import { defineConfig } from 'vitest/config'

import { LongestSlowFirst } from './vitest.order.ts'
import {
  filesWithTag,
  lowestProject,
  newestProject,
  onlyTagged,
  runDefaults,
} from './vitest.shared.ts'

// Kept out of `pnpm test`: tests of many processes, of kills and of loads, and the tests of the adapters on
// the lowest supported version of each framework.
export default defineConfig({
  test: {
    ...runDefaults,
    sequence: { sequencer: LongestSlowFirst },
    projects: [
      newestProject({
        include: filesWithTag('slow'),
        ...onlyTagged('slow && !nightly'),
        // Some of them take a minute alone, and a machine that does other work takes longer.
        testTimeout: 600_000,
        hookTimeout: 600_000,
        expect: { poll: { timeout: 300_000 } },
      }),
      lowestProject({
        // What every version promises. The other tests of the adapters follow in `vitest.nightly.config.ts`.
        include: [
          'packages/{openai-agents,strands,ai-sdk,langchain,mastra,pi}/test/{adapter-contract,blame,fallback,queues,running-sdk,user-examples}.test.ts',
        ],
        // Many rollouts at once are nightly tests, too. The contract of each adapter has some.
        ...onlyTagged('!slow && !nightly'),
      }),
    ],
  },
})
