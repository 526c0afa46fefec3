import { meanValue, passRate } from '../figures/reward-figures.ts'
import type { ItemEvent } from '../records/item-event.ts'
import type { RunManifest } from '../records/run-manifest.ts'
import { average, type Estimate } from '../statistics/estimate.ts'
import { toRunDocument } from '../table/document-writer.ts'
import { RunTable } from '../table/run-table.ts'
import type { EqualAttempts, StepFigures } from './training-records.ts'

/** What the rollouts of a step came to. */
export interface MeasuredRollouts {
  readonly figures: StepFigures
  /** Positions of its rows in the dataset. */
  readonly rows: readonly number[]
  /** Those whose attempts all had the same reward. */
  readonly settledRows: readonly number[]
}

/** Figures of the rollouts of a run, as journals of trainings have them. */
export function measureRollouts(
  manifest: RunManifest,
  events: Iterable<ItemEvent>,
  seconds: number,
): MeasuredRollouts {
  const ended = [...events]
  const table = new RunTable(toRunDocument(manifest, ended))
  const { reward, passes } = stepEstimates(table)
  const total = (value: (event: ItemEvent) => number): number =>
    ended.reduce((sum, event) => sum + value(event), 0)
  const count = Math.max(1, ended.length)
  const failed = ended.filter(({ status }) => status === 'failed')
  return {
    figures: {
      rollouts: ended.length,
      failed: failed.length,
      ...failureOf(failed),
      reward: reward.value,
      rewardFrom: reward.ci95?.[0] ?? null,
      rewardTo: reward.ci95?.[1] ?? null,
      passRate: passes.value ?? 0,
      passFrom: passes.ci95?.[0] ?? null,
      passTo: passes.ci95?.[1] ?? null,
      answerTokens: total((event) => event.completion_tokens ?? 0) / count,
      toolCalls: total((event) => event.tool_calls) / count,
      cutOff:
        total((event) => event.finish['length'] ?? 0) /
        Math.max(
          1,
          total(({ calls }) => calls),
        ),
      ...metricsOf(ended),
      ...contextFullOf(ended),
      ...equalAttempts(table, ended),
      seconds,
    },
    rows: table.groups.map(({ row }) => row),
    settledRows: table.groups.filter(({ kind }) => kind !== 'signal').map(({ row }) => row),
  }
}

/** Names of metrics: a journal has those of each step. */
const mostMetrics = 50

function metricsOf(ended: readonly ItemEvent[]): Pick<StepFigures, 'metrics'> {
  const counted = ended.filter(({ status }) => status !== 'skipped')
  const names = new Set(counted.flatMap(({ metrics }) => Object.keys(metrics)))
  if (names.size === 0) return {}
  const means = [...names]
    .toSorted()
    .slice(0, mostMetrics)
    .map((name) => [name, average(counted.flatMap(({ metrics }) => metrics[name] ?? []))] as const)
  return { metrics: Object.fromEntries(means) }
}

function contextFullOf(events: readonly ItemEvent[]): Pick<StepFigures, 'contextFull'> {
  const full = events.filter(({ limit }) => limit === 'context').length
  return full === 0 ? {} : { contextFull: full / events.length }
}

function equalAttempts(table: RunTable, events: readonly ItemEvent[]): Pick<StepFigures, 'equal'> {
  const groups = table.groups.filter(
    ({ kind, graded, passed }) => kind !== 'signal' && graded > 1 && passed === 0,
  )
  // Their rewards differ by rounding at most.
  const byReward = Map.groupBy(groups, ({ mean }) => (mean ?? 0).toPrecision(6))
  const [most] = [...byReward.values()].toSorted((a, b) => b.length - a.length)
  if (most === undefined) return {}
  const rows = new Set(most.map(({ row }) => row))
  const own = events.filter(({ source_row_index: row, reward }) => rows.has(row) && reward !== null)
  const names = new Set(own.flatMap(({ metrics }) => Object.keys(metrics)))
  const equal: EqualAttempts = {
    rows: most.length,
    reward: most[0]?.mean ?? 0,
    answer: own.find(({ summary }) => summary !== '')?.summary ?? '',
    missing: [...names].filter((name) => own.every(({ metrics }) => metrics[name] === 0)),
  }
  return { equal }
}

/** Characters of a message: journals have the failure of each step. */
const longestMessage = 160

function failureOf(failed: readonly ItemEvent[]): Pick<StepFigures, 'failure'> {
  const kinds = Map.groupBy(failed, ({ error_type: type }) => type ?? 'failed')
  const [most] = [...kinds].toSorted(([, a], [, b]) => b.length - a.length)
  if (most === undefined) return {}
  const [type, events] = most
  const message = (events[0]?.error_message ?? '').replaceAll(/\s+/g, ' ').slice(0, longestMessage)
  return { failure: { type, rollouts: events.length, message } }
}

/** The mean reward and the pass rate of a step, with intervals that have only what such figures can be. */
export function stepEstimates(table: RunTable): {
  readonly reward: Estimate
  readonly passes: Estimate
} {
  const [reward, passes] = [meanValue(table.groups), passRate(table.groups)]
  // Rewards are from 0 to 1 unless some were not.
  const least = table.values.some((value) => (value ?? 0) < 0) ? -Infinity : 0
  const most = table.values.some((value) => (value ?? 0) > 1) ? Infinity : 1
  return { reward: within(reward, least, most), passes: within(passes, 0, 1) }
}

function within(estimate: Estimate, least: number, most: number): Estimate {
  const { ci95 } = estimate
  if (ci95 === null) return estimate
  return { ...estimate, ci95: [Math.max(ci95[0], least), Math.min(ci95[1], most)] }
}
