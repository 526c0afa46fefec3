import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { BaseSequencer, type TestModule, type TestSpecification } from 'vitest/node'

/** Durations of the last complete run of the tests in this checkout. Seconds, by file. */
const own = path.join(import.meta.dirname, 'node_modules/.cache/test-durations.json')
/** Those of runs that were recorded, for a checkout in which no run was complete. */
const recorded = {
  tests: path.join(import.meta.dirname, 'test/durations.json'),
  slow: path.join(import.meta.dirname, 'test/durations.slow.json'),
} as const

/**
 * Starts the files that took longest in the last run first, so that none is left running alone at the end. Vitest's own
 * order knows durations from the second run on, and a fresh clone should be tested as fast.
 */
export class LongestFirst extends BaseSequencer {
  protected durations(): Durations {
    return read(existsSync(own) ? own : recorded.tests)
  }

  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations = this.durations()
    const secondsOf = ({ moduleId }: TestSpecification): number =>
      durations[path.relative(import.meta.dirname, moduleId)] ?? 0
    // oxlint-disable-next-line unicorn/no-array-sort -- the method of the sequencer
    const byDefault = await super.sort(files)
    return byDefault.toSorted((a, b) => secondsOf(b) - secondsOf(a))
  }
}

/** The same for slow tests. */
export class LongestSlowFirst extends LongestFirst {
  protected override durations(): Durations {
    return read(recorded.slow)
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
