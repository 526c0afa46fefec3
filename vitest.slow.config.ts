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
        include: ['packages/{openai-agents,strands,ai-sdk,langchain,mastra,pi}/test/**/*.test.ts'],
        // The programs that these start find the framework by themselves, which is the newest version.
        exclude: ['**/node_modules/**', '**/test/{no-tracing,older-sdk}.test.ts'],
        // Many rollouts at once: `vitest.nightly.config.ts`. The contract of each adapter has some.
        ...onlyTagged('!slow && !nightly'),
      }),
    ],
  },
})
