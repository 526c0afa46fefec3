import { defineConfig } from 'vitest/config'

// Both ends of the peer range: every test runs on the newest release and on the oldest supported.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'newest',
          provide: { sdkPackage: 'ai' },
          setupFiles: ['test/fail-on-console.ts'],
          testTimeout: 30_000,
        },
      },
      {
        resolve: { alias: [{ find: /^ai$/, replacement: 'ai-lowest' }] },
        test: {
          name: 'lowest',
          provide: { sdkPackage: 'ai-lowest' },
          setupFiles: ['test/fail-on-console.ts'],
          testTimeout: 30_000,
        },
      },
    ],
  },
})
