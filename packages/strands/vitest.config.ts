import { defineConfig } from 'vitest/config'

// Both ends of the peer range: every test runs on the newest release and on the oldest supported.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'newest',
          provide: { sdkPackage: '@strands-agents/sdk' },
          setupFiles: ['test/fail-on-console.ts'],
          testTimeout: 30_000,
        },
      },
      {
        resolve: {
          alias: [{ find: /^@strands-agents\/sdk$/, replacement: '@strands-agents/sdk-lowest' }],
        },
        test: {
          name: 'lowest',
          provide: { sdkPackage: '@strands-agents/sdk-lowest' },
          setupFiles: ['test/fail-on-console.ts'],
          testTimeout: 30_000,
        },
      },
    ],
  },
})
