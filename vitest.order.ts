import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { BaseSequencer, type TestModule, type TestSpecification } from 'vitest/node'

/** Durations of the last complete run in this checkout. Seconds, by file. */
const own = path.join(import.meta.dirname, 'node_modules/.cache/test-durations.json')
/** Those of a run that was recorded, for a checkout in which no run was complete. */
const recorded = path.join(import.meta.dirname, 'test/durations.json')

/**
 * Starts the files that took longest in the last run first, so that none is left running alone at the end. Vitest's own
 * order knows durations from the second run on, and a fresh clone should be tested as fast.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations = read(existsSync(own) ? own : recorded)
    const secondsOf = ({ moduleId }: TestSpecification): number =>
      durations[path.relative(import.meta.dirname, moduleId)] ?? 0
    // oxlint-disable-next-line unicorn/no-array-sort -- the method of the sequencer
    const byDefault = await super.sort(files)
    return byDefault.toSorted((a, b) => secondsOf(b) - secondsOf(a))
  }
}

function read(file: string): Record<string, number> {
  return JSON.parse(existsSync(file) ? readFileSync(file, 'utf8') : '{}') as Record<string, number>
}

/** Keeps the durations of a complete run; where `OSMOSIS_TESTS_RECORD` is set, also for others, in test/durations.json. */
export function keepDurations(modules: readonly TestModule[]): void {
  const seconds = modules
    .map(
      (module) =>
        [module.relativeModuleId, Math.round(module.diagnostic().duration / 1000)] as const,
    )
    .filter(([, duration]) => duration > 0)
    .toSorted(([a], [b]) => a.localeCompare(b))
  for (const file of process.env['OSMOSIS_TESTS_RECORD'] ? [own, recorded] : [own]) {
    // Files whose programs are missing here took no time.
    const durations = { ...read(recorded), ...Object.fromEntries(seconds) }
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, `${JSON.stringify(durations, null, 2)}\n`)
  }
}
