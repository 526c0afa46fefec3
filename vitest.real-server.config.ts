import { defineConfig } from 'vitest/config'

import { newestProject, runDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: these tests need llama.cpp's server and a model, which `.ci/python-environment model-server` installs.
export default defineConfig({
  test: {
    ...runDefaults,
    // The files share one server, and its answers take one core.
    maxWorkers: 1,
    projects: [newestProject({ maxWorkers: 1, include: ['test/real-server/*.test.ts'] })],
  },
})
