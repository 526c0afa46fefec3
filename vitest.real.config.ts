import { defineConfig } from 'vitest/config'

import { newestProject, runDefaults } from './vitest.shared.ts'

// Kept out of all other runs: these tests need vLLM, which `.ci/python-environment vllm` installs, and some minutes for its starts.
export default defineConfig({
  test: {
    ...runDefaults,
    maxWorkers: 1,
    projects: [
      newestProject({
        maxWorkers: 1,
        include: ['test/real/*.test.ts'],
        testTimeout: 900_000,
        hookTimeout: 900_000,
        expect: { poll: { timeout: 600_000 } },
      }),
    ],
  },
})
