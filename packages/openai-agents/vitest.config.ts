import { defineConfig } from 'vitest/config'

// Both ends of the peer range: every test runs on the newest release and on the oldest supported.
export default defineConfig({
  test: {
    projects: [
      { test: { name: 'newest', provide: { sdkVersion: '0.20.0' } } },
      {
        resolve: { alias: [{ find: /^@openai\/agents$/, replacement: '@openai/agents-lowest' }] },
        test: { name: 'lowest', provide: { sdkVersion: '0.15.0' } },
      },
    ],
  },
})
