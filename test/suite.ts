// Runs the tests that `pnpm test` leaves out, because they take minutes or need more than npm has.
//
//   npx -y pnpm@12 run test:suite                            lists the suites
//   npx -y pnpm@12 run test:suite <name> [file or flag …]
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')

interface Suite {
  readonly about: string
  /** Whether it runs the packages as they are published. */
  readonly needsBuild?: true
  /** Projects of `vitest.suites.config.ts`, or a program. */
  readonly runs: readonly string[] | `./${string}.ts`
}

const suites: Readonly<Record<string, Suite>> = {
  slow: {
    about: 'kills, loads, and the contract of each adapter on the lowest version of its framework',
    runs: ['slow', 'slow lowest'],
  },
  nightly: {
    about: 'the longest tests, and all tests of the adapters on those versions',
    runs: ['nightly', 'nightly lowest'],
  },
  documents: { about: 'the commands and programs of the documents', runs: ['documents'] },
  firefox: { about: 'the pages of the viewer and of the site in Firefox', runs: ['firefox'] },
  packed: {
    about: 'the packages, installed from a registry of this machine',
    needsBuild: true,
    runs: ['packed'],
  },
  'llama.cpp': { about: 'agents against a real server of llama.cpp', runs: ['llama.cpp'] },
  vllm: { about: 'a real vLLM as policy and as sampler of a training', runs: ['vLLM'] },
  noticed: { about: 'that the three runs below notice the faults they look for', runs: ['faults'] },
  faults: { about: 'rollouts with faults of all kinds', runs: './faults/main.ts' },
  distributed: { about: 'the same over a queue', runs: './distributed/main.ts' },
  trainers: { about: 'the same with the worker of another trainer', runs: './trainers/main.ts' },
  programs: { about: 'programs that people installed, as agents', runs: './programs/main.ts' },
  mutations: {
    about: 'mistakes of one line, which tests have to notice',
    runs: './mutations/main.ts',
  },
}

const [name = '', ...rest] = process.argv.slice(2)
const suite = Object.hasOwn(suites, name) ? suites[name] : undefined
if (suite === undefined) {
  const lines = Object.entries(suites).map(([key, { about }]) => `  ${key.padEnd(12)} ${about}`)
  if (name !== '') console.error(`There is no suite ${JSON.stringify(name)}.\n`)
  console.log(`npx -y pnpm@12 run test:suite <name> [file or flag …]\n\n${lines.join('\n')}`)
  process.exit(name === '' ? 0 : 2)
}
if (suite.needsBuild) {
  execFileSync('turbo', ['run', 'build'], { cwd: root, stdio: 'inherit' })
}
if (typeof suite.runs === 'string') {
  // In this process, so that signals reach it.
  const program = path.join(import.meta.dirname, suite.runs)
  process.argv = [process.execPath, program, ...rest]
  await import(program)
} else {
  const projects = suite.runs.flatMap((project) => ['--project', project])
  const args = ['run', '--config', 'vitest.suites.config.ts', ...projects, ...rest]
  // As `pnpm test` starts it, which tells programs that tests start where packages are (NODE_PATH).
  const vitest = path.join(root, 'node_modules/.bin/vitest')
  const child = spawn(vitest, args, { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => child.kill(signal))
  }
  const [code] = (await once(child, 'close')) as [number | null]
  process.exitCode = code ?? 1
}
