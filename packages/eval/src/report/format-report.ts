import type { EvaluationMetrics } from '../metrics/evaluation-metrics.ts'
import { type EvaluationResult, type ModelResult, modelsOf } from '../run/evaluation-result.ts'
import type { RunCost } from '../run/run-cost.ts'
import {
  formatCount,
  formatDollars,
  formatDuration,
  formatQuantity,
  formatReward,
  formatShare,
} from './figures.ts'
import { modelTable, scoreTable } from './score-tables.ts'
import { cutToWidth, type ReportStyle, wrapToWidth } from './text-layout.ts'

const width = 80
const labelWidth = 14

/** Options of {@link formatReport}. */
export interface FormatReportOptions {
  /** Default: none, plain text. */
  readonly style?: ReportStyle
}

/**
 * The result of an evaluation as a table for people, without a line feed at the end. Fits into 80
 * columns, except for names and paths, which are never cut, and for the tables of scores that eval
 * functions and a baseline make necessary.
 */
export function formatReport(result: EvaluationResult, options: FormatReportOptions = {}): string {
  const { style = (_format, text) => text } = options
  const { names, location } = result
  const models = modelsOf(result)
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
      field('Policy', models.map(({ name }) => name).join(' against ')),
      field('Items', itemsText(result, models)),
    ],
    ...resultSections(models, field, style),
    [
      field('Tokens', tokensText(models)),
      ...(result.cost === null ? [] : [field('Cost', costText(result.cost))]),
      field('Time', timeText(result)),
    ],
    ...models.flatMap((model) => failureSections(model, models, style)),
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

function itemsText(
  { rowCount, attempts, pending, records }: EvaluationResult,
  models: readonly ModelResult[],
): string {
  const by = models.length === 1 ? '' : ` × ${models.length} models`
  const plan = `${formatQuantity(rowCount, 'row')} × ${formatQuantity(attempts, 'attempt')}${by}`
  const total = `${plan} = ${formatCount(rowCount * attempts * models.length)}`
  const skipped = sumOf(models, ({ metrics }) => metrics.skipped)
  const notes = [
    ...(pending > 0
      ? [`${formatCount(records.length)} done`, `${formatCount(pending)} pending`]
      : []),
    ...(skipped > 0 ? [`${formatCount(skipped)} skipped`] : []),
  ]
  return notes.length > 0 ? `${total}  (${notes.join(', ')})` : total
}

/** One model and its reward need no table. */
function resultSections(
  models: readonly ModelResult[],
  field: (label: string, value: string) => string,
  style: ReportStyle,
): string[][] {
  const [{ metrics } = { metrics: undefined }, ...others] = models
  if (metrics === undefined) return []
  if (others.length > 0 || Object.keys(metrics.scores).length > 0) {
    const passed = field('Passed', `with ${metrics.passThreshold} or more`)
    return [
      [...scoreTable(models, style), '', passed],
      others.length === 0 ? [] : modelTable(models, style),
    ]
  }
  return [
    [
      field('Reward', rewardText(metrics)),
      field('Pass rate', passText(metrics, style)),
      ...(metrics.reward.passAtK ?? []).map(({ k, value }) =>
        field(`Pass@${k}`, formatShare(value)),
      ),
    ],
  ]
}

function rewardText({ reward: { stats } }: EvaluationMetrics): string {
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
  const { reward, completedItems, passThreshold } = metrics
  if (completedItems === 0) return 'none'
  const counts = `${formatCount(reward.passed)} of ${formatCount(completedItems)}`
  return `${style('bold', formatShare(reward.passRate))}  (${counts} with a reward of ${passThreshold} or more)`
}

function tokensText(models: readonly ModelResult[]): string {
  const [used, prompt, completion] = [
    sumOf(models, ({ metrics }) => metrics.tokensUsed),
    sumOf(models, ({ metrics }) => metrics.promptTokens),
    sumOf(models, ({ metrics }) => metrics.completionTokens),
  ].map(formatCount)
  return `${used}  (prompt ${prompt}, completion ${completion})`
}

function costText({ usd, unknown }: RunCost): string {
  if (unknown === 0) return formatDollars(usd)
  return `${formatDollars(usd)}  (not known of ${formatQuantity(unknown, 'rollout')})`
}

function timeText({ durationMs, records }: EvaluationResult): string {
  const time = formatDuration(durationMs)
  if (durationMs <= 0 || records.length === 0) return time
  const rate = records.length / (durationMs / 1000)
  return `${time}  (${rate.toFixed(rate < 10 ? 2 : 1)} rollouts/s)`
}

/** What went wrong with the items of a model. */
function failureSections(
  { tag, metrics }: ModelResult,
  models: readonly ModelResult[],
  style: ReportStyle,
): string[][] {
  const of = models.length === 1 ? '' : ` (${tag})`
  return [
    failureLines(metrics, of, style),
    metrics.withoutModelCalls === 0 ? [] : [style('yellow', bypassWarning(metrics, of))],
  ]
}

function failureLines(
  { failures, failed }: EvaluationMetrics,
  of: string,
  style: ReportStyle,
): string[] {
  if (failed === 0) return []
  const countWidth = Math.max(...failures.map(({ count }) => formatCount(count).length))
  const typeWidth = Math.max(...failures.map(({ errorType }) => errorType.length))
  return [
    style('red', `${formatQuantity(failed, 'failure')}${of}`),
    ...failures.map(({ errorType, count, example }) => {
      const head = `  ${formatCount(count).padStart(countWidth)} × ${errorType.padEnd(typeWidth)}  `
      return (head + cutToWidth(example, Math.max(20, width - head.length))).trimEnd()
    }),
  ]
}

function bypassWarning({ withoutModelCalls }: EvaluationMetrics, of: string): string {
  return `${formatQuantity(withoutModelCalls, 'rollout')}${of} succeeded without a model call: does the agent use the policy?`
}

function sumOf(models: readonly ModelResult[], figure: (model: ModelResult) => number): number {
  return models.reduce((sum, model) => sum + figure(model), 0)
}
