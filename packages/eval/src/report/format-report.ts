import type { EvaluationMetrics } from '../metrics/evaluation-metrics.ts'
import type { EvaluationResult } from '../run/evaluation-result.ts'
import {
  formatCount,
  formatDuration,
  formatQuantity,
  formatReward,
  formatShare,
} from './figures.ts'
import type { ReportStyle } from './report-style.ts'
import { cutToWidth, wrapToWidth } from './text-width.ts'

const width = 80
const labelWidth = 14

/** Options of {@link formatReport}. */
export interface FormatReportOptions {
  /** Default: none, plain text. */
  readonly style?: ReportStyle
}

/**
 * The result of an evaluation as a table for people, without a line feed at the end. Fits into 80
 * columns, except for names and paths, which are never cut.
 */
export function formatReport(result: EvaluationResult, options: FormatReportOptions = {}): string {
  const { style = (_format, text) => text } = options
  const { names, metrics, location } = result
  const finished = result.status === 'finished'
  const status = style(finished ? 'green' : 'yellow', result.status)
  const field = (label: string, value: string): string =>
    style('dim', label.padEnd(labelWidth)) + value
  const reason = result.incompleteReason
  const sections = [
    [
      `${style('bold', 'Evaluation')}    ${names.run}  ${status}`,
      ...(reason === null ? [] : [field('Stopped', indented(reason))]),
      style('dim', '─'.repeat(width)),
      field('Rollout', names.rollout),
      field('Dataset', names.dataset),
      field('Policy', names.model),
      field('Items', itemsText(result)),
    ],
    [
      field('Reward', rewardText(metrics)),
      field('Pass rate', passText(metrics, style)),
      ...(metrics.passAtK ?? []).map(({ k, value }) => field(`Pass@${k}`, formatShare(value))),
    ],
    [field('Tokens', tokensText(metrics)), field('Time', timeText(result))],
    failureLines(metrics, style),
    metrics.withoutModelCalls === 0 ? [] : [style('yellow', bypassWarning(metrics))],
    location === null ? [] : [field('Results', location)],
  ]
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')
}

function indented(text: string): string {
  return wrapToWidth(text, width - labelWidth).join(`\n${' '.repeat(labelWidth)}`)
}

function itemsText({ rowCount, attempts, pending, metrics }: EvaluationResult): string {
  const plan = `${formatQuantity(rowCount, 'row')} × ${formatQuantity(attempts, 'attempt')}`
  const ended = metrics.totalSamples
  const total = `${plan} = ${formatCount(rowCount * attempts)}`
  const notes = [
    ...(pending > 0 ? [`${formatCount(ended)} done`, `${formatCount(pending)} pending`] : []),
    ...(metrics.skipped > 0 ? [`${formatCount(metrics.skipped)} skipped`] : []),
  ]
  return notes.length > 0 ? `${total}  (${notes.join(', ')})` : total
}

function rewardText({ rewardStats: stats }: EvaluationMetrics): string {
  if (stats === null) return 'none'
  const [mean, std, median, min, max] = [
    stats.mean,
    stats.std,
    stats.median,
    stats.min,
    stats.max,
  ].map(formatReward)
  return `${mean} ± ${std}  (median ${median}, min ${min}, max ${max})`
}

function passText(metrics: EvaluationMetrics, style: ReportStyle): string {
  const { passRate, passed, completedSamples, passThreshold } = metrics
  if (completedSamples === 0) return 'none'
  const counts = `${formatCount(passed)} of ${formatCount(completedSamples)}`
  return `${style('bold', formatShare(passRate))}  (${counts} with a reward of ${passThreshold} or more)`
}

function tokensText({ tokensUsed, promptTokens, completionTokens }: EvaluationMetrics): string {
  const parts = `prompt ${formatCount(promptTokens)}, completion ${formatCount(completionTokens)}`
  return `${formatCount(tokensUsed)}  (${parts})`
}

function timeText({ durationMs, metrics }: EvaluationResult): string {
  const time = formatDuration(durationMs)
  if (durationMs <= 0 || metrics.totalSamples === 0) return time
  const rate = metrics.totalSamples / (durationMs / 1000)
  return `${time}  (${rate.toFixed(rate < 10 ? 2 : 1)} rollouts/s)`
}

function failureLines({ failures, failed }: EvaluationMetrics, style: ReportStyle): string[] {
  if (failed === 0) return []
  const countWidth = Math.max(...failures.map(({ count }) => formatCount(count).length))
  const typeWidth = Math.max(...failures.map(({ errorType }) => errorType.length))
  return [
    style('red', formatQuantity(failed, 'failure')),
    ...failures.map(({ errorType, count, example }) => {
      const head = `  ${formatCount(count).padStart(countWidth)} × ${errorType.padEnd(typeWidth)}  `
      return (head + cutToWidth(example, Math.max(20, width - head.length))).trimEnd()
    }),
  ]
}

function bypassWarning({ withoutModelCalls }: EvaluationMetrics): string {
  return `${formatQuantity(withoutModelCalls, 'rollout')} succeeded without a model call: does the agent use the policy?`
}
