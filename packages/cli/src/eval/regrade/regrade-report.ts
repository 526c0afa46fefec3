import { gradedEvents, itemKey, type Grade, type Regrading, type RunReader } from '@osmosis/eval'
import {
  formatCount,
  formatDuration,
  formatQuantity,
  formatReward,
  formatShare,
  compareRuns,
  rolloutName,
  RunTable,
  toRunDocument,
  type Comparison,
  type ItemEvent,
} from '@osmosis/eval/analysis'

import { indented, type Report, type Section } from '../../command/output/report.ts'

/** A finished re-grading of a run. */
export interface EndedRegrading {
  readonly run: RunReader
  /** Name of the re-grading. */
  readonly grading: string
  /** The class or function that graded. */
  readonly grader: string
  readonly regrading: Regrading
  /** The selected items, with their earlier rewards. */
  readonly events: readonly ItemEvent[]
  readonly durationMs: number
}

/** An item that passed in only one of the gradings. */
interface ChangedVerdict {
  /** `<row>.<attempt>`, the attempt from 1. */
  readonly rollout: string
  readonly before: number | null
  readonly after: number | null
  readonly error: string | null
}

/** What a re-grading changed. */
interface GradingChange {
  readonly changed: readonly ChangedVerdict[]
  /** Number of changed rewards, with or without a changed verdict. */
  readonly otherRewards: number
  readonly pass: Comparison
  readonly reward: Comparison
}

const mostLines = 20
const mostErrors = 5

/** The report for the terminal. */
export function regradeReport(ended: EndedRegrading): Report {
  const { run, grading, grader, regrading, events, durationMs } = ended
  const { grades } = regrading
  const change = changeOf(ended)
  const skipped = grades.filter((grade) => grade.skipped).length
  const what = `${formatCount(grades.length)} of ${formatQuantity(events.length, 'rollout')}`
  const done = grades.length === 0 ? [] : [`Written as ${run.name}@${grading}.`]
  const changed = change === undefined ? [] : changeSection(change)
  const head = [
    `Graded ${what} of ${run.name} with ${grader} in ${formatDuration(durationMs)}.`,
    ...ungradedSection(regrading),
    ...(skipped > 0 ? [`Excluded from training: ${formatCount(skipped)}.`] : []),
    ...errorSection(grades),
  ]
  return changed.length === 0 ? [[...head, ...done]] : [head, [...changed, ...done]]
}

/** The report for `--json`. */
export function regradeDocument(ended: EndedRegrading): object {
  const { run, grading, grader, regrading, events, durationMs } = ended
  const { grades, failed, missing, damaged, pending } = regrading
  const change = changeOf(ended)
  return {
    run: run.name,
    location: run.location,
    grading,
    grader,
    rollouts: events.length,
    graded: grades.length,
    errors: grades.flatMap((grade) =>
      grade.error === null ? [] : [{ rollout: rolloutName(grade), error: grade.error }],
    ),
    skipped: grades.filter((grade) => grade.skipped).length,
    not_graded: {
      failed: failed.map(rolloutName),
      missing: missing.map(rolloutName),
      damaged: damaged.map(rolloutName),
      pending: pending.map(rolloutName),
    },
    ...(change === undefined ? {} : changeDocument(change)),
    duration_ms: Math.round(durationMs),
  }
}

function changeDocument({ pass, reward, ...change }: GradingChange): object {
  return {
    ...change,
    verdict: `${pass.verdict.lead}${pass.verdict.rest}`,
    pass_rate: { before: pass.before, after: pass.after, difference: pass.difference },
    reward: { before: reward.before, after: reward.after, difference: reward.difference },
  }
}

/** Undefined when nothing can be compared. */
function changeOf({ run, regrading, events }: EndedRegrading): GradingChange | undefined {
  const unknown = new Set([...regrading.missing, ...regrading.damaged, ...regrading.pending])
  const byKey = new Map(regrading.grades.map((grade) => [itemKey(grade), grade]))
  // Without a grade there is nothing to compare.
  const isJudged = (event: ItemEvent): boolean =>
    (byKey.get(itemKey(event))?.error ?? null) === null
  const known = events.filter((event) => !unknown.has(event) && isJudged(event))
  if (known.length === 0) return undefined
  const after = gradedEvents(run.manifest, known, byKey)
  const old = new RunTable(toRunDocument(run.manifest, known))
  const now = new RunTable(toRunDocument(run.manifest, after), { measure: 'reward' })
  const pairs = known.map((event) => {
    const { source_row_index: row, run_index: attempt } = event
    const [a, b] = [old.find(row, attempt) ?? 0, now.find(row, attempt) ?? 0]
    return {
      rollout: rolloutName(event),
      before: old.value(a),
      after: now.value(b),
      error: byKey.get(itemKey(event))?.error ?? null,
      isChanged: old.passed(a) !== now.passed(b),
    }
  })
  return {
    changed: pairs.flatMap(({ isChanged, ...pair }) => (isChanged ? [pair] : [])),
    otherRewards: pairs.filter((pair) => pair.before !== pair.after).length,
    pass: compareRuns(old, now),
    reward: compareRuns(old, now, { metric: 'reward' }),
  }
}

function ungradedSection({ failed, missing, damaged, pending }: Regrading): Section {
  const counts: [readonly ItemEvent[], string][] = [
    [failed, 'failed and have no samples'],
    [missing, 'whose stored samples are missing'],
    [damaged, 'whose stored samples are damaged'],
    [pending, 'that the grading did not reach'],
  ]
  const parts = counts.flatMap(([items, what]) =>
    items.length === 0 ? [] : [`${formatCount(items.length)} ${what}`],
  )
  return parts.length === 0 ? [] : [`Not graded: ${parts.join(', ')}.`]
}

function errorSection(grades: readonly Grade[]): Section {
  const failed = grades.filter(({ error }) => error !== null)
  if (failed.length === 0) return []
  return [
    `The grader failed for ${formatQuantity(failed.length, 'rollout')}, which ${failed.length === 1 ? 'has no reward and is' : 'have no reward and are'} not compared:`,
    ...firstOf(failed, mostErrors, (grade) => `${rolloutName(grade)}: ${grade.error ?? ''}`),
  ]
}

/** A line for each of the first, and how many more there are. */
function firstOf<T>(list: readonly T[], most: number, line: (one: T) => string): Section {
  const rest = list.length - most
  const more = rest > 0 ? [`and ${formatCount(rest)} more`] : []
  return [...list.slice(0, most).map(line), ...more].map((said) => indented(said))
}

function changeSection({ changed, otherRewards, pass, reward }: GradingChange): Section {
  const counted = formatQuantity(changed.length, 'verdict')
  const isChanged = `${changed.length === 1 ? 'has' : 'have'} changed`
  return [
    changed.length === 0 ? 'No verdict has changed.' : `${counted} ${isChanged}:`,
    ...firstOf(
      changed,
      mostLines,
      ({ rollout, before, after }) => `${rollout}: ${valueText(before)} → ${valueText(after)}`,
    ),
    ...(otherRewards > changed.length ? [otherRewardsText(otherRewards, changed.length)] : []),
    `Pass rate ${shareText(pass.before.value)} → ${shareText(pass.after.value)}${meanText(reward)}.`,
    `${pass.verdict.lead}${pass.verdict.rest}`,
  ]
}

function otherRewardsText(count: number, changed: number): string {
  const differ = `${formatQuantity(count, 'reward')} ${count === 1 ? 'differs' : 'differ'}`
  return changed === 0
    ? `${differ}, without a change of the verdict.`
    : `${differ}; the others without a change of the verdict.`
}

function valueText(value: number | null): string {
  return value === null ? 'no reward' : formatReward(value)
}

/** Means are those of rows that have rewards in both: there are none when the grader always failed. */
function meanText({ before, after }: Comparison): string {
  if (before.value === null || after.value === null) return ''
  return `, mean reward ${formatReward(before.value)} → ${formatReward(after.value)}`
}

function shareText(value: number | null): string {
  return value === null ? 'unknown' : formatShare(value)
}
