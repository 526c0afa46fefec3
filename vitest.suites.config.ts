import { defineConfig } from 'vitest/config'

import { LongestFirst } from './test/vitest/order.ts'
import {
  filesWithBrowser,
  filesWithTag,
  lowestProject,
  newestProject,
  onlyTagged,
  runDefaults,
  testDefaults,
} from './test/vitest/projects.ts'

// The tests that `pnpm test` leaves out, a project or two for each suite of `test/suite.ts`, which says what they are about.
export default defineConfig({
  test: {
    ...runDefaults,
    sequence: { sequencer: LongestFirst },
    projects: [
      newestProject({
        name: 'slow',
        include: filesWithTag('slow'),
        ...onlyTagged('slow && !nightly'),
        // Some of them take a minute alone, and a machine that does other work takes longer.
        testTimeout: 600_000,
        hookTimeout: 600_000,
        expect: { poll: { timeout: 300_000 } },
      }),
      lowestProject({
        name: 'slow lowest',
        // What every version promises. The other tests of the adapters are nightly ones.
        include: [
          'packages/{openai-agents,strands,ai-sdk,langchain,mastra,pi}/test/{adapter-contract,blame,fallback,queues,running-sdk,user-examples}.test.ts',
        ],
        // Many rollouts at once are nightly tests, too. The contract of each adapter has some.
        ...onlyTagged('!slow && !nightly'),
      }),
      newestProject({
        name: 'nightly',
        include: filesWithTag('nightly'),
        ...onlyTagged('nightly'),
      }),
      lowestProject({
        name: 'nightly lowest',
        include: ['packages/{openai-agents,strands,ai-sdk,langchain,mastra,pi}/test/**/*.test.ts'],
        // The programs that these start find the framework by themselves, which is the newest version.
        exclude: ['**/node_modules/**', '**/test/{no-tracing,older-sdk}.test.ts'],
        ...onlyTagged('!nightly'),
      }),
      {
        test: {
          ...testDefaults,
          name: 'documents',
          include: ['test/documents/*.test.ts'],
          exclude: filesWithTag('nightly', 'all'),
        },
      },
      {
        test: {
          ...testDefaults,
          name: 'faults',
          include: ['test/{faults,distributed,trainers}/*.test.ts'],
        },
      },
      {
        test: {
          name: 'packed',
          include: ['test/packed/**/*.test.ts'],
          // Also on two cores both files at once: they wait for disks and registries.
          maxWorkers: 2,
          globalSetup: ['test/packed/pack-once.ts'],
          // Ends what hangs: installing and compiling take minutes on a machine that does something else as well.
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      newestProject({
        name: 'firefox',
        include: filesWithBrowser(),
        env: { ...testDefaults.env, OSMOSIS_TEST_BROWSER: 'firefox' },
        // A Firefox is several processes, and each of them has work to do.
        maxWorkers: 2,
      }),
      newestProject({
        name: 'llama.cpp',
        include: ['test/llama-cpp/*.test.ts'],
        // The files share one server, and its answers take one core, which other work may take as well.
        maxWorkers: 1,
        testTimeout: 600_000,
        hookTimeout: 600_000,
        expect: { poll: { timeout: 300_000 } },
      }),
      newestProject({
        name: 'vLLM',
        include: ['test/vllm/*.test.ts'],
        maxWorkers: 1,
        testTimeout: 900_000,
        hookTimeout: 900_000,
        expect: { poll: { timeout: 600_000 } },
      }),
    ],
  },
})
