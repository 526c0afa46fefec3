import { fileURLToPath } from 'node:url'

import type { TestProjectInlineConfiguration } from 'vitest/config'

declare module 'vitest' {
  interface ProvidedContext {
    /** The framework under test, see {@link bothEndsOf}. */
    sdkPackage: string
  }
}

/**
 * What holds for the tests of every package. Nothing in them depends on how fast the machine is, so
 * the limits only end what hangs.
 */
export const testDefaults = {
  // Vitest would leave a core to itself, which on a small machine is half of it. Projects do not take
  // this over from the root.
  maxWorkers: '100%',
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: [fileURLToPath(new URL('packages/testing/kit/fail-on-console.ts', import.meta.url))],
}

/**
 * Both ends of an adapter's peer range: every test runs on the newest release of the framework, and
 * on the oldest that is supported, which is installed as `<framework>-lowest`.
 */
export function bothEndsOf(framework: string): TestProjectInlineConfiguration[] {
  const lowest = `${framework}-lowest`
  const find = new RegExp(`^${framework}$`)
  return [
    { test: { ...testDefaults, name: 'newest', provide: { sdkPackage: framework } } },
    {
      resolve: { alias: [{ find, replacement: lowest }] },
      test: { ...testDefaults, name: 'lowest', provide: { sdkPackage: lowest } },
    },
  ]
}
