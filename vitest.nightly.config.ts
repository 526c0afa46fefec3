import { defineConfig } from 'vitest/config'

import {
  filesWithTag,
  lowestProject,
  newestProject,
  onlyTagged,
  runDefaults,
} from './vitest.shared.ts'

// Kept out of `test:slow` as well, so that a change is tested within twenty minutes: long tests of what other tests
// touch too.
export default defineConfig({
  test: {
    ...runDefaults,
    projects: [
      newestProject({ include: filesWithTag('nightly'), ...onlyTagged('nightly') }),
      lowestProject({
        include: [
          'packages/{openai-agents,strands,ai-sdk,langchain,mastra}/test/adapter-contract.test.ts',
        ],
        ...onlyTagged('slow'),
      }),
    ],
  },
})
