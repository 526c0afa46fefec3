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
        include: ['packages/{openai-agents,strands,ai-sdk,langchain,mastra,pi}/test/**/*.test.ts'],
        // The programs that these start find the framework by themselves, which is the newest version.
        exclude: ['**/node_modules/**', '**/test/{no-tracing,older-sdk}.test.ts'],
        ...onlyTagged('!nightly'),
      }),
    ],
  },
})
