import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Writable } from 'node:stream'

// oxlint-disable-next-line import/no-unassigned-import -- it adds the matcher
import '@osmosis/eval/vitest'
import {
  evaluationSummary,
  type EvaluationResult,
  gradedEvents,
  metricsDocument,
  openRun,
  resumeRun,
  runEvaluation,
  type RunReader,
  toScorer,
} from '@osmosis/eval'
import { formatShare, type ItemEvent, type RunStatistics } from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'
import { runWithin } from '../src/command/command-context.ts'
import { exitCodeOf } from '../src/eval/run/run-output.ts'
import { run } from './in-process.ts'
import { makeRun } from './made-runs.ts'
import { temporaryFolder } from './osmosis.ts'

const scoreNames = ['exact', 'close']
const value: fc.Arbitrary<number> = fc.constantFrom(-1, 0, 0.25, 0.5, 1, 2)
const scores = fc.record({ exact: value, close: value }, { requiredKeys: [] })
const rewarded = fc.array(value, { minLength: 1, maxLength: 3 }).map((rewards) => ({
  reward: rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length,
  samples: Object.fromEntries(rewards.map((reward, index) => [`sample-${index}`, reward])),
}))
const unrewarded = fc.constant({ reward: null, samples: { main: null } })
const error = { error_type: 'agent_error', error_message: 'broken' }

/** Ends of items: with a reward of one sample or of several, without, failed, and removed from training. */
const ends = fc.oneof(
  fc.tuple(fc.constant({ status: 'success' as const }), rewarded),
  fc.tuple(fc.constant({ status: 'success' as const }), unrewarded),
  fc.tuple(fc.constant({ status: 'failed' as const, ...error }), unrewarded),
  fc.tuple(fc.constant({ status: 'skipped' as const }), unrewarded),
)
type End = Pick<ItemEvent, 'status' | 'reward' | 'samples' | 'scores'>
const endsWith = (more: fc.Arbitrary<object>): fc.Arbitrary<End> =>
  fc.tuple(ends, more).map(([[status, reward], scored]) => ({ ...status, ...reward, ...scored }))
const unscoredEnd = endsWith(fc.constant({}))
const scoredEnd = endsWith(scores.map((own) => ({ scores: own })))

/** Runs by rows of attempts; null is one that is pending, or not graded again. */
const arbitraryRun = fc.record({
  attempts: fc.integer({ min: 1, max: 4 }),
  threshold: fc.constantFrom(-1, 0, 0.5, 1),
  rows: fc.oneof<fc.Arbitrary<(End | null)[][]>[]>(
    fc.array(fc.array(unscoredEnd, { minLength: 4 }), { minLength: 1, maxLength: 4 }),
    fc.array(fc.array(fc.option(scoredEnd, { freq: 9 }), { minLength: 4 }), { minLength: 1 }),
  ),
  grades: fc.array(fc.array(fc.option(unscoredEnd))),
})
type ArbitraryRun = typeof arbitraryRun extends fc.Arbitrary<infer T> ? T : never

/** The rule in a few words: passes by all items that were not removed; what has no value does not pass. */
function expectedRate(items: readonly End[], threshold: number): number {
  const counted = items.filter(({ status }) => status !== 'skipped')
  const [first = []] = [({ reward }: End) => reward]
    .concat(scoreNames.map((name) => (item) => item.scores?.[name] ?? null))
    .map((read) => counted.map(read))
    .filter((values) => values.some((each) => each !== null))
  const passed = first.filter((each) => each !== null && each >= threshold)
  return counted.length === 0 ? 0 : passed.length / counted.length
}

interface Told {
  readonly summary: EvaluationResult['model']['summary']
  readonly stats: RunStatistics['stats']
}

/** Pass rate, mean and pass@k by the events, and by the table. */
function figures({ summary, stats }: Told): [byEvents: unknown, byTable: unknown] {
  const { measure, pass_rate: rate, mean } = stats
  const events =
    measure === 'reward' ? { ...summary, stats: summary.reward_stats } : summary.scores?.[measure]
  const points = stats.pass_at_k.flatMap((draw) =>
    draw.value === null ? [] : [{ k: draw.k, value: draw.value }],
  )
  return [
    [events?.pass_rate, events?.stats?.mean ?? null, events?.pass_at_k ?? []],
    [rate.value ?? 0, mean.value, points.length < 2 ? [] : points],
  ]
}

async function storedRun({ rows, attempts: n, threshold }: ArbitraryRun): Promise<string> {
  const items = rows.flatMap((row, at) =>
    row.slice(0, n).flatMap((event, attempt) => (event ? [{ row: at, attempt, event }] : [])),
  )
  return makeRun({
    outputRoot: temporaryFolder(),
    name: 'r',
    rows: rows.length,
    n,
    scorers: items.some(({ event }) => event.scores) ? scoreNames : [],
    // Items do not end in the order of the rows.
    items: items.toReversed(),
    manifest: { pass_threshold: threshold },
  })
}

/** Ends a stored run as `eval run` does, without running what is pending. */
async function endRun(location: string): Promise<Told & { result: EvaluationResult }> {
  await using store = Object.assign(await resumeRun({ location }), {
    [Symbol.asyncDispose]: async () => store.close(),
  })
  const { manifest } = store
  const empty = { initialMessages: [], label: null, metadata: null, otherColumns: {} }
  const result = await runEvaluation({
    names: { run: 'r', rollout: 'airline', dataset: 'data/airline.jsonl' },
    rows: manifest.rows.map(({ source_row }) => ({ sourceRowIndex: source_row, ...empty })),
    model: { name: 'm', runner: { run: () => Promise.reject(new Error('it must not run')) } },
    scorers: manifest.inputs.code.scorers.map((name) => toScorer(name, () => 0)),
    n: manifest.n,
    passThreshold: manifest.pass_threshold,
    signal: AbortSignal.abort(new Error('stopped')),
    store,
  })
  const { stats } = metricsDocument(result, store) as unknown as Told
  return { result, summary: result.model.summary, stats }
}

async function shown(...args: string[]): Promise<string> {
  const { code, stdout } = await run(['eval', ...args])
  expect(code).toBe(0)
  return stdout
}

/** Nothing is said of a run in which no item counts. */
async function assertShown(location: string, { stats }: Told): Promise<void> {
  expect(JSON.parse(await shown('show', location, '--json'))).toMatchObject({ stats })
  const { pass_rate: before } = stats
  if (before.value === null) return
  expect(await shown('show', location)).toContain(`  ${formatShare(before.value)}`)
  const compared: unknown = JSON.parse(await shown('compare', location, location, '--json'))
  expect(compared).toMatchObject({ before })
}

/** The exit code of `--min-pass-rate`; 1 for a run that has failed for another reason. */
async function exitCode(result: EvaluationResult, minPassRate: number): Promise<unknown> {
  const stderr = new Writable({ write: (_text, _encoding, done) => done() })
  return runWithin({ stderr }, async () => exitCodeOf(result, { minPassRate, grader: true }))
}

async function assertGates(
  result: EvaluationResult,
  location: string,
  rate: number,
): Promise<void> {
  expect([0, 1]).toContain(await exitCode(result, rate))
  expect([3, 1]).toContain(await exitCode(result, rate + 1e-9))
  if (result.pending > 0 || result.items.every(({ status }) => status === 'skipped')) return
  expect(result).toPass({ rate })
  expect(await openRun(location)).toPass({ rate })
  if (rate === 1) return
  expect(result).not.toPass({ rate: rate + 1e-9 })
}

it('the pass rate of a run is the same in metrics.json, reports, --json, --min-pass-rate and toPass', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryRun, async (made) => {
      const location = await storedRun(made)
      const { result, ...told } = await endRun(location)
      const rate = expectedRate(result.items, made.threshold)
      const [byEvents, byTable] = figures(told)
      expect(byEvents).toEqual(byTable)
      expect(told.stats.pass_rate.value ?? 0).toBe(rate)
      const written: unknown = JSON.parse(readFileSync(path.join(location, 'metrics.json'), 'utf8'))
      expect(written).toMatchObject(told)
      await assertShown(location, told)
      await assertGates(result, location, rate)
    }),
    { numRuns: runs(40) },
  )
})

it('the pass rate of a re-grading is that of its grades', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryRun, async (made) => {
      const reader = await openRun(await storedRun(made))
      const { location, manifest, sortedEvents } = reader
      await reader.replaceGrades('second', gradesOf(sortedEvents, made))
      const items = gradedEvents(manifest, sortedEvents, await reader.grades('second'))
      const { attempts, threshold } = made
      const options = { attempts, passThreshold: threshold, scoreNames }
      const text = await shown('show', `${location}@second`, '--json')
      const { stats } = JSON.parse(text) as Told
      const [byEvents, byTable] = figures({ stats, summary: evaluationSummary(items, options) })
      expect(byEvents).toEqual(byTable)
      expect(stats.pass_rate.value ?? 0).toBe(expectedRate(items, threshold))
    }),
    { numRuns: runs(40) },
  )
})

function gradesOf(
  events: readonly ItemEvent[],
  { grades }: ArbitraryRun,
): Parameters<RunReader['replaceGrades']>[1] {
  return events.flatMap(({ row_index, source_row_index, run_index, rollout_id }) => {
    const end = grades[row_index]?.[run_index] ?? null
    if (end === null) return []
    const { status, ...grade } = end
    const skipped = status === 'skipped' && { skipped: true as const }
    const place = { source_row_index, run_index, rollout_id }
    return [{ ...place, ...grade, ...skipped, error: status === 'failed' ? 'broken' : null }]
  })
}
