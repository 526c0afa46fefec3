import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    // Every case starts the command as a process of its own.
    testTimeout: 30_000,
  },
})
