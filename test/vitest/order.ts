import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { BaseSequencer, type TestModule, type TestSpecification } from 'vitest/node'

const root = path.resolve(import.meta.dirname, '../..')
/** Durations of the last complete run of `pnpm test` in this checkout. Seconds, by file. */
const own = path.join(root, 'node_modules/.cache/test-durations.json')
/** Those of runs that were recorded: of `pnpm test`, for a checkout in which none was complete, and of the slow tests. */
const recorded = {
  tests: path.join(root, 'test/durations.json'),
  slow: path.join(root, 'test/durations.slow.json'),
} as const

/**
 * Starts the files that took longest in the last run first, so that none is left running alone at the end. Vitest's own
 * order knows durations from the second run on, and a fresh clone should be tested as fast.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const tests = read(existsSync(own) ? own : recorded.tests)
    const slow = read(recorded.slow)
    const secondsOf = ({ moduleId, project }: TestSpecification): number => {
      const durations = project.name === 'newest' ? tests : slow
      return durations[path.relative(root, moduleId)] ?? 0
    }
    // oxlint-disable-next-line unicorn/no-array-sort -- the method of the sequencer
    const byDefault = await super.sort(files)
    return byDefault.toSorted((a, b) => secondsOf(b) - secondsOf(a))
  }
}

type Durations = Readonly<Record<string, number>>

function read(file: string): Durations {
  return JSON.parse(existsSync(file) ? readFileSync(file, 'utf8') : '{}') as Durations
}

/** A run of so many files is one of all tests. */
const wholeRun = 400

/** Keeps the durations of a complete run, and records those of a run for which `OSMOSIS_TESTS_RECORD` is `tests` or `slow`. */
export function keepDurations(modules: readonly TestModule[]): void {
  const seconds = Object.fromEntries(
    modules
      .map(
        (module) =>
          [module.relativeModuleId, Math.round(module.diagnostic().duration / 1000)] as const,
      )
      .filter(([, duration]) => duration > 0),
  )
  const kind = process.env['OSMOSIS_TESTS_RECORD']
  if (kind === 'tests' || kind === 'slow') write(recorded[kind], seconds)
  if (modules.length > wholeRun) write(own, seconds)
}

function write(file: string, seconds: Durations): void {
  // Files whose programs are missing here took no time.
  const known = read(file === own ? recorded.tests : file)
  const sorted = Object.entries({ ...known, ...seconds }).toSorted(([a], [b]) => a.localeCompare(b))
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`)
}
