import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import type { Mutation } from './mutation.ts'
import { mutationAreas } from './mutations.ts'

// Applies each mutation of some areas to a copy of this repository, and expects tests to fail.
//
//   npx -y pnpm@12 run test:suite mutations [area …] [--name <words of a name>]

const root = path.resolve(import.meta.dirname, '../..')
const args = process.argv.slice(2)
const flag = args.indexOf('--name')
const words = flag === -1 ? '' : args.slice(flag + 1).join(' ')
const areas = flag === -1 ? args : args.slice(0, flag)
const unknown = areas.filter((area) => !Object.hasOwn(mutationAreas, area))
const chosen = Object.entries(mutationAreas)
  .filter(([area]) => areas.length === 0 || areas.includes(area))
  .flatMap(([, mutations]) => mutations.filter(({ name }) => name.includes(words)))
if (unknown.length > 0 || chosen.length === 0) {
  const problem =
    unknown.length > 0
      ? `There is no area ${unknown.join(', ')}`
      : `No mutation has ${JSON.stringify(words)} in its name`
  console.error(`${problem}. The areas are: ${Object.keys(mutationAreas).join(', ')}.`)
  process.exit(2)
}

const copy = mkdtempSync(path.join(tmpdir(), 'osmosis-mutations-'))
/** The run of tests that is in progress; the leader of a process group, to which everything belongs that the tests start. */
let running: ChildProcess | undefined
process.on('exit', () => {
  endRunning()
  rmSync(copy, { recursive: true, force: true, maxRetries: 5 })
})
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  process.on(signal, () => process.exit(code))
}

copyRepository()
await promisify(execFile)(
  'npx',
  ['-y', 'pnpm@12', 'install', '--frozen-lockfile', '--prefer-offline'],
  { cwd: copy },
)

const truth = chosen.some(({ overTheWire }) => overTheWire) ? ['test/training'] : []
const owners = [...new Set(chosen.flatMap(({ tests }) => tests))]
if ((await failedTests([...owners, ...truth])) !== 0) {
  console.error('These tests fail without a mutation: run them by themselves first.')
  process.exit(1)
}

let survived = 0
for (const mutation of chosen) {
  const undo = apply(mutation)
  const places = mutation.overTheWire ? [mutation.tests, truth] : [mutation.tests]
  const missed: string[] = []
  for (const tests of places) {
    if ((await failedTests(tests, ['--bail=1'])) === 0) missed.push(tests.join(' '))
  }
  undo()
  if (missed.length > 0) survived += 1
  console.log(
    missed.length > 0
      ? `SURVIVED  ${mutation.name}: nothing failed in ${missed.join(' and in ')}`
      : `noticed   ${mutation.name}`,
  )
}
console.log(`${chosen.length - survived} passed, ${survived} failed`)
process.exitCode = survived === 0 ? 0 : 1

/** The files as they are in the working tree. */
function copyRepository(): void {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root })
  for (const file of listed.toString().split('\0')) {
    // Files that were deleted are still listed.
    if (file === '' || !existsSync(path.join(root, file))) continue
    mkdirSync(path.dirname(path.join(copy, file)), { recursive: true })
    cpSync(path.join(root, file), path.join(copy, file))
  }
}

/** Returns what takes the mutation back. */
function apply({ name, file, from, to }: Mutation): () => void {
  const place = path.join(copy, file)
  const text = readFileSync(place, 'utf8')
  if (text.split(from).length !== 2) {
    throw new Error(`${name}: ${file} does not have the line ${JSON.stringify(from)} once.`)
  }
  writeFileSync(
    place,
    text.replace(from, () => to),
  )
  return () => writeFileSync(place, text)
}

/** How many of these tests fail; the slow cases of a file run when its others notice nothing. */
async function failedTests(
  tests: readonly string[],
  flags: readonly string[] = [],
): Promise<number> {
  const { slow = [], quick = [] } = Object.groupBy(tests, (test) =>
    isSlow(test) ? 'slow' : 'quick',
  )
  const failed = await failedOf('vitest.config.ts', 'newest', quick, flags)
  if (failed > 0) return failed
  return failedOf('vitest.suites.config.ts', 'slow', [...slow, ...quick.filter(hasSlow)], flags)
}

/** Whether `pnpm test` leaves out cases of a file. */
function hasSlow(test: string): boolean {
  return textOf(test).includes("tags: 'slow'")
}

/** Whether `pnpm test` leaves out all of a file. */
function isSlow(test: string): boolean {
  return textOf(test).startsWith('// @module-tag slow')
}

/** Empty for a folder. */
function textOf(test: string): string {
  return test.endsWith('.test.ts') ? readFileSync(path.join(copy, test), 'utf8') : ''
}

async function failedOf(
  config: string,
  project: string,
  tests: readonly string[],
  flags: readonly string[],
): Promise<number> {
  if (tests.length === 0) return 0
  const report = path.join(copy, 'node_modules/.mutation-report.json')
  rmSync(report, { force: true })
  const vitest = path.join(copy, 'node_modules/vitest/vitest.mjs')
  const output = ['--reporter=json', `--outputFile=${report}`]
  running = spawn(
    process.execPath,
    [vitest, 'run', '--config', config, '--project', project, ...output, ...flags, ...tests],
    { cwd: copy, stdio: 'ignore', detached: true },
  )
  await once(running, 'close')
  endRunning()
  const { numFailedTests, numPassedTests } = JSON.parse(readFileSync(report, 'utf8')) as {
    numFailedTests: number
    numPassedTests: number
  }
  if (numFailedTests + numPassedTests === 0) throw new Error(`No test ran: ${tests.join(' ')}.`)
  return numFailedTests
}

/** Kills what a run of tests has started, which may outlive it. */
function endRunning(): void {
  const { pid } = running ?? {}
  running = undefined
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Nothing of it runs any more.
  }
}
