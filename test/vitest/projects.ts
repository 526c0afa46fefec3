import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'

import type { Plugin, TestProjectInlineConfiguration, TestTagDefinition } from 'vitest/config'

import { TestSummary } from './summary.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Whether the tests run on the oldest version of each framework that its adapter supports. */
    lowestFrameworks: boolean
  }
}

/** Cases that `pnpm test` leaves out: `it('…', { tags: 'slow' }, …)`, or `// @module-tag slow` for all of a file. */
const tags: TestTagDefinition[] = [
  { name: 'slow', description: 'kills, loads and full tables, which the suite `slow` runs' },
  { name: 'nightly', description: 'the longest, which the suite `nightly` runs' },
]

/** Settings that all tests share. No test depends on the speed of the machine, so the limits only end what hangs. */
export const testDefaults = {
  tags,
  // Two more than cores, because many tests wait: for timers, connections and processes. Projects do
  // not inherit this from the root.
  maxWorkers: availableParallelism() + 2,
  // The files that a worker runs share their modules, because loading them is most of the work of a short
  // test. A test that changes its process restores it; `leave-no-trace.ts` checks that.
  isolate: false,
  // What a test makes is garbage when it ends. With room for it from the start, V8 seldom copies what lives. The other
  // workers keep all cores busy, so threads that help to collect would only take time from them. Both together save a
  // tenth of all work.
  execArgv: ['--min-semi-space-size=32', '--max-semi-space-size=32', '--single-threaded-gc'],
  env: {
    // Compiled code is kept for the next worker, and for the processes that tests start.
    NODE_COMPILE_CACHE: pathTo('node_modules/.cache/node-compile'),
    // The same for Python, also where the environment of the tests forbids it: compiling torch and transformers is most
    // of the work of a learner with a tiny model. An empty text forbids nothing.
    PYTHONDONTWRITEBYTECODE: '',
    // The models of tests are tiny: several threads of one would only wait for one another.
    OMP_NUM_THREADS: '1',
    // Commands name other commands as the user's shell finds them, however the tests were started.
    npm_config_user_agent: '',
    // Evaluations that tests run are not a result of the job that runs the tests.
    GITHUB_STEP_SUMMARY: '',
  },
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: [pathTo('test/kit/leave-no-trace.ts'), pathTo('test/kit/fail-on-console.ts')],
}

/** Settings of a test run; projects do not have these. */
export const runDefaults = {
  maxWorkers: testDefaults.maxWorkers,
  // Vitest picks a terser reporter when it thinks an agent is reading; keep one format.
  reporters: ['default' as const, new TestSummary()],
}

const texts = new Map(
  globSync('{packages,test}/**/*.test.ts', {
    cwd: pathTo(''),
    exclude: ['**/node_modules/**'],
  }).map((file) => [file, readFileSync(pathTo(file), 'utf8')] as const),
)

/**
 * The test files that have cases with a tag. Vitest would load every file to find them.
 *
 * @param part - `all` for those whose every case has it
 */
export function filesWithTag(tag: 'slow' | 'nightly', part?: 'all'): string[] {
  const forms = [`// @module-tag ${tag}\n`, ...(part === 'all' ? [] : [`tags: '${tag}'`])]
  return [...texts]
    .filter(([, text]) => forms.some((form) => text.includes(form)))
    .map(([file]) => file)
}

/** The test files with cases that show pages in a browser. */
export function filesWithBrowser(): string[] {
  return [...texts].filter(([, text]) => text.includes('withBrowser')).map(([file]) => file)
}

/** Vitest reads this setting from projects, although their type does not have it. */
export function onlyTagged(expression: string): object {
  return { tagsFilter: [expression] }
}

/** Tests on the newest release of each framework. */
export function newestProject(
  test: TestProjectInlineConfiguration['test'],
): TestProjectInlineConfiguration {
  return {
    logLevel: 'error', // no warnings about the source maps of what is inlined
    test: {
      ...testDefaults,
      name: 'newest',
      provide: { lowestFrameworks: false },
      // GitHub's parser imports JSON in a way that bundlers know and Node.js does not.
      server: { deps: { inline: [/@actions/] } },
      ...test,
    },
  }
}

/** The same tests on the oldest release of each framework that its adapter supports. */
export function lowestProject(
  test: TestProjectInlineConfiguration['test'],
): TestProjectInlineConfiguration {
  const frameworks = [
    '@earendil-works/pi-agent-core',
    '@earendil-works/pi-ai',
    '@mastra/core',
    '@openai/agents',
    '@strands-agents/sdk',
    'ai',
  ]
  return {
    plugins: [
      resolvedFrom(
        'packages/langchain/test/lowest/',
        /^(?:@langchain\/(?:core|langgraph)|langchain)(?:\/|$)/,
      ),
    ],
    resolve: {
      alias: frameworks.map((name) => ({
        find: new RegExp(`^${name}(?=/|$)`),
        replacement: `${name}-lowest`,
      })),
    },
    test: { ...testDefaults, name: 'lowest', provide: { lowestFrameworks: true }, ...test },
  }
}

/** Resolves packages that are peers of one another, and so are installed together in a folder of their own. */
function resolvedFrom(folder: string, packages: RegExp): Plugin {
  return {
    name: `resolved from ${folder}`,
    enforce: 'pre',
    async resolveId(id, _importer, options) {
      return packages.test(id)
        ? this.resolve(id, pathTo(`${folder}package.json`), { ...options, skipSelf: true })
        : undefined
    },
  }
}

function pathTo(file: string): string {
  return fileURLToPath(new URL(`../../${file}`, import.meta.url))
}
