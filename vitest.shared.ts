import { availableParallelism } from 'node:os'
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
  // Two more than cores, because many tests wait: for timers, connections and processes. Projects do
  // not take this over from the root.
  maxWorkers: availableParallelism() + 2,
  // The files that a worker runs share their modules, which are most of the work of a short test. So
  // whatever a test changes for its whole process, it puts back; `leave-no-trace.ts` looks.
  isolate: false,
  env: {
    // Compiled code is kept for the next worker, and for the processes that tests start.
    NODE_COMPILE_CACHE: pathTo('node_modules/.cache/node-compile'),
    // However the tests were started: commands name others as the shell finds them.
    npm_config_user_agent: '',
  },
  // On a machine that others use a test may be late all the same. The run says at its end which were.
  retry: process.env['CI'] ? 1 : 0,
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: [
    pathTo('packages/testing/kit/leave-no-trace.ts'),
    pathTo('packages/testing/kit/fail-on-console.ts'),
  ],
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

function pathTo(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url))
}
