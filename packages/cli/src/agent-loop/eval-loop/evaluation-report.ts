import {
  formatCount,
  formatQuantity,
  formatReward,
  formatShare,
  type EvaluationMetrics,
  type ReportStyle,
} from '@osmosis/eval'

import { durationText, oneLine } from '../outcome-text.ts'
import type { ComparedModel } from './compared-models.ts'
import type { LoopEvaluation, ModelSummary } from './loop-evaluation.ts'
import { tableLines } from './text-table.ts'

const labelWidth = 14

/** An evaluation as a table for people, without a line feed at the end. */
export function evaluationReport(
  evaluation: LoopEvaluation,
  summaries: readonly ModelSummary[],
  style: ReportStyle,
): string {
  const { loopName, dataset, stopReason, passThreshold, durationMs } = evaluation
  const field = (label: string, value: string): string =>
    style('dim', label.padEnd(labelWidth)) + value
  const status = stopReason === null ? style('green', 'finished') : style('yellow', 'stopped early')
  return [
    [
      `${style('bold', 'Evaluation'.padEnd(labelWidth))}${loopName}  ${status}`,
      ...(stopReason === null ? [] : [field('Stopped', oneLine(stopReason))]),
      field('Dataset', dataset),
      field('Runs', runsText(evaluation)),
      field('Passed', `with a score of ${passThreshold} or more`),
      field('Time', durationText(durationMs)),
    ],
    withHead(scoreRows(summaries), 2, style),
    withHead(modelRows(summaries), 1, style),
  ]
    .map((lines) => lines.join('\n'))
    .join('\n\n')
}

function runsText({ rowCount, n, models, runs }: LoopEvaluation): string {
  const total = rowCount * n * models.length
  const by = models.length === 1 ? '' : ` × ${models.length} models`
  const plan = `${formatQuantity(rowCount, 'row')} × ${formatQuantity(n, 'run')}${by}`
  const done = runs.length === total ? '' : `  (${formatCount(runs.length)} done)`
  return `${plan} = ${formatCount(total)}${done}`
}

function withHead(rows: readonly string[][], rightFrom: number, style: ReportStyle): string[] {
  const [head = '', ...lines] = tableLines(rows, rightFrom)
  return [style('bold', head), ...lines]
}

function scoreRows(summaries: readonly ModelSummary[]): string[][] {
  const scored = summaries.flatMap(({ scorers }) => scorers)
  const points = new Set(
    scored.flatMap(({ metrics }) => (metrics.reward.passAtK ?? []).map(({ k }) => k)),
  )
  const passHeads = [...points].map((k) => `Pass@${k}`)
  const head = ['Score', 'Model', 'Mean ± std', 'Min', 'Max', 'Scored', 'Pass rate', ...passHeads]
  const names = summaries[0]?.scorers.map(({ name }) => name) ?? []
  const lines = names.flatMap((name, index) =>
    summaries.map(({ model, scorers }) => {
      const figures = scorers[index] ? scoreFigures(scorers[index].metrics, points) : []
      return [name, modelName(model, summaries), ...figures]
    }),
  )
  return [head, ...lines]
}

function scoreFigures(metrics: EvaluationMetrics, points: ReadonlySet<number>): string[] {
  const { stats, graded, passRate, passAtK } = metrics.reward
  const { completedItems } = metrics
  return [
    ...(stats === null
      ? ['none', '', '']
      : [
          `${formatReward(stats.mean)} ± ${formatReward(stats.std)}`,
          formatReward(stats.min),
          formatReward(stats.max),
        ]),
    `${formatCount(graded)} of ${formatCount(completedItems)}`,
    completedItems === 0 ? 'none' : formatShare(passRate),
    ...[...points].map((k) => {
      const point = passAtK?.find((other) => other.k === k)
      return point === undefined ? '' : formatShare(point.value)
    }),
  ]
}

function modelRows(summaries: readonly ModelSummary[]): string[][] {
  const head = ['Model', 'Runs', 'Failed', 'Average time', 'Average tokens']
  const lines = summaries.map(({ model, runs, failed, totalDurationMs, totalTokens }) => [
    modelName(model, summaries),
    formatCount(runs),
    formatCount(failed),
    runs === 0 ? 'none' : durationText(totalDurationMs / runs),
    runs === 0 ? 'none' : formatCount(Math.round(totalTokens / runs)),
  ])
  return [head, ...lines]
}

/** The same model may be compared with itself at another address. */
function modelName({ name, tag }: ComparedModel, summaries: readonly ModelSummary[]): string {
  return summaries.length === 1 ? name : `${name} (${tag})`
}
