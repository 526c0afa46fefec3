import { execFileSync, spawnSync } from 'node:child_process'
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

import type { Mutation } from './mutation.ts'
import { mutations } from './mutations.ts'

// Applies each mutation to a copy of this repository, and expects tests to fail. Usage: main.ts [words of names …]

const root = path.resolve(import.meta.dirname, '../..')
const wanted = process.argv.slice(2).join(' ')
const chosen = mutations.filter(({ name }) => name.includes(wanted))
if (chosen.length === 0) {
  console.error(`No mutation has ${JSON.stringify(wanted)} in its name.`)
  process.exit(2)
}

const copy = mkdtempSync(path.join(tmpdir(), 'osmosis-mutations-'))
process.on('exit', () => rmSync(copy, { recursive: true, force: true }))
process.on('SIGINT', () => process.exit(130))
copyRepository()

const truth = chosen.some(({ overTheWire }) => overTheWire) ? ['test/training'] : []
const owners = [...new Set(chosen.flatMap(({ tests }) => tests))]
if (failedTests([...owners, ...truth]) !== 0) {
  console.error('These tests fail without a mutation: run them by themselves first.')
  process.exit(1)
}

let survived = 0
for (const mutation of chosen) {
  const undo = apply(mutation)
  const places = mutation.overTheWire ? [mutation.tests, truth] : [mutation.tests]
  const results = places.map((tests) => ({ tests, failed: failedTests(tests) }))
  undo()
  const missed = results.filter(({ failed }) => failed === 0)
  if (missed.length > 0) survived += 1
  const counts = results.map(({ tests, failed }) => `${failed} failed in ${tests.join(' ')}`)
  console.log(
    `${missed.length > 0 ? 'SURVIVED' : 'noticed '}  ${mutation.name}: ${counts.join('; ')}`,
  )
}
console.log(`${chosen.length - survived} passed, ${survived} failed`)
process.exitCode = survived === 0 ? 0 : 1

/** The files as they are in the working tree, with an installation of their own. */
function copyRepository(): void {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root })
  for (const file of listed.toString().split('\0')) {
    // Files that were deleted are still listed.
    if (file === '' || !existsSync(path.join(root, file))) continue
    mkdirSync(path.dirname(path.join(copy, file)), { recursive: true })
    cpSync(path.join(root, file), path.join(copy, file))
  }
  const install = ['-y', 'pnpm@12', 'install', '--frozen-lockfile', '--prefer-offline']
  execFileSync('npx', install, { cwd: copy, stdio: ['ignore', 'ignore', 'inherit'] })
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

/** How many of these tests fail. */
function failedTests(tests: readonly string[]): number {
  const report = path.join(copy, 'node_modules/.mutation-report.json')
  rmSync(report, { force: true })
  const vitest = ['exec', 'vitest', 'run', '--reporter=json', `--outputFile=${report}`]
  const command = ['-y', 'pnpm@12', ...vitest, '--project', 'newest', ...tests]
  spawnSync('npx', command, { cwd: copy, stdio: 'ignore' })
  const { numFailedTests, numPassedTests } = JSON.parse(readFileSync(report, 'utf8')) as {
    numFailedTests: number
    numPassedTests: number
  }
  if (numFailedTests + numPassedTests === 0) throw new Error(`No test ran: ${tests.join(' ')}.`)
  return numFailedTests
}
