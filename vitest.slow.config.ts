import { defineConfig } from 'vitest/config'

import { lowestProject, newestProject, runDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: tests of many processes, of kills and of loads, and all tests of the adapters on
// the lowest supported version of each framework.
export default defineConfig({
  test: {
    ...runDefaults,
    projects: [
      newestProject({ include: ['{packages,test}/**/*.slow.test.ts'] }),
      lowestProject({
        include: ['packages/{openai-agents,strands,ai-sdk,langchain,mastra}/test/**/*.test.ts'],
      }),
    ],
  },
})
