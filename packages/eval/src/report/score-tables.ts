import type { ScoreMetrics } from '../metrics/evaluation-metrics.ts'
import type { ModelResult } from '../run/evaluation-result.ts'
import { formatCount, formatDuration, formatReward, formatShare } from './figures.ts'
import { type ReportStyle, tableLines } from './text-layout.ts'

/** Lines of a table of all scores of all models, the reward among them where there is one. */
export function scoreTable(models: readonly ModelResult[], style: ReportStyle): string[] {
  const names = Object.keys(models[0]?.metrics.scores ?? {})
  const rewarded = names.length === 0 || models.some(({ metrics }) => metrics.reward.graded > 0)
  const lines = [
    ...(rewarded ? models.map((model) => ({ name: 'reward', model, score: rewardOf(model) })) : []),
    ...names.flatMap((name) =>
      models.map((model) => ({ name, model, score: model.metrics.scores[name] })),
    ),
  ]
  const points = new Set(lines.flatMap(({ score }) => (score?.passAtK ?? []).map(({ k }) => k)))
  const head = ['Score', 'Model', 'Mean ± std', 'Min', 'Max', 'Scored', 'Pass rate']
  const rows = lines.map(({ name, model, score }) => [
    name,
    modelName(model, models),
    ...(score === undefined ? [] : figuresOf(score, model.metrics.completedItems, points)),
  ])
  return tableLines([[...head, ...[...points].map((k) => `Pass@${k}`)], ...rows], 2, style)
}

/** Lines of a table of what the items of each model cost. */
export function modelTable(models: readonly ModelResult[], style: ReportStyle): string[] {
  const head = ['Model', 'Items', 'Failed', 'Average time', 'Average tokens']
  const rows = models.map((model) => {
    const { totalItems, failed, durationMs, tokensUsed } = model.metrics
    return [
      modelName(model, models),
      formatCount(totalItems),
      formatCount(failed),
      totalItems === 0 ? 'none' : timeText(durationMs / totalItems),
      totalItems === 0 ? 'none' : formatCount(Math.round(tokensUsed / totalItems)),
    ]
  })
  return tableLines([head, ...rows], 1, style)
}

function timeText(ms: number): string {
  return ms < 999.5 ? `${Math.round(ms)} ms` : formatDuration(ms)
}

function rewardOf({ metrics }: ModelResult): ScoreMetrics {
  return metrics.reward
}

/** The same model may be compared with itself at another address. */
function modelName({ name, tag }: ModelResult, models: readonly ModelResult[]): string {
  return models.length === 1 ? name : `${name} (${tag})`
}

function figuresOf(score: ScoreMetrics, completed: number, points: ReadonlySet<number>): string[] {
  const { stats, graded, passRate, passAtK } = score
  return [
    ...(stats === null
      ? ['none', '', '']
      : [
          `${formatReward(stats.mean)} ± ${formatReward(stats.std)}`,
          formatReward(stats.min),
          formatReward(stats.max),
        ]),
    `${formatCount(graded)} of ${formatCount(completed)}`,
    completed === 0 ? 'none' : formatShare(passRate),
    ...[...points].map((k) => {
      const point = passAtK?.find((other) => other.k === k)
      return point === undefined ? '' : formatShare(point.value)
    }),
  ]
}
