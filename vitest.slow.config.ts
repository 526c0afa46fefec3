import { defineConfig } from 'vitest/config'

import { LongestSlowFirst } from './vitest.order.ts'
import {
  filesWithTag,
  lowestProject,
  newestProject,
  onlyTagged,
  runDefaults,
} from './vitest.shared.ts'

// Kept out of `pnpm test`: tests of many processes, of kills and of loads, and all tests of the adapters on
// the lowest supported version of each framework.
export default defineConfig({
  test: {
    ...runDefaults,
    sequence: { sequencer: LongestSlowFirst },
    projects: [
      newestProject({ include: filesWithTag('slow'), ...onlyTagged('slow && !nightly') }),
      lowestProject({
        include: ['packages/{openai-agents,strands,ai-sdk,langchain,mastra}/test/**/*.test.ts'],
      }),
    ],
  },
})
