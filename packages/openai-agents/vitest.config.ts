import { defineConfig } from 'vitest/config'

// Both ends of the peer range: every test runs on the newest release and on the oldest supported.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'newest',
          provide: { sdkPackage: '@openai/agents' },
          setupFiles: ['test/fail-on-console.ts'],
          testTimeout: 30_000,
        },
      },
      {
        resolve: { alias: [{ find: /^@openai\/agents$/, replacement: '@openai/agents-lowest' }] },
        test: {
          name: 'lowest',
          provide: { sdkPackage: '@openai/agents-lowest' },
          setupFiles: ['test/fail-on-console.ts'],
          testTimeout: 30_000,
        },
      },
    ],
  },
})
