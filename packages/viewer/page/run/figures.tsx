import type { Estimate, RunStatistics, RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import {
  compact,
  counted,
  duration,
  intervalText,
  margin,
  percent,
  points,
  signed,
  thousands,
  unknown,
} from '../format.ts'

interface FigureProps {
  readonly label: string
  readonly value: string
  /** What is beside the value, e.g. how sure it is. */
  readonly beside?: string | undefined
  readonly below: string
  readonly isBad?: boolean
  readonly query: string
}

/** From this share of failing calls on tools are in the way. */
const badErrorRate = 0.05

/** Below it the interval of a mean is wider than what it is about. */
const fewRows = 5

/** The figures of a run; each shows the rollouts that it is about. */
export function Figures({
  table,
  statistics,
  onQuery,
}: {
  table: RunTable
  statistics: RunStatistics | null
  onQuery: (query: string) => void
}): JSX.Element {
  const list = statistics === null ? placeholders(table) : figuresOf(table, statistics)
  return (
    <div class="figures" role="group" aria-label="Figures">
      {list.map(({ label, value, beside, below, isBad, query }) => (
        <button key={label} class="figure" onClick={() => onQuery(query)}>
          <div class="label">{label}</div>
          <div class={`value${isBad === true ? ' alarm' : ''}`}>
            {value}
            {beside !== undefined && <small>{beside}</small>}
          </div>
          <div class="sub">{below}</div>
        </button>
      ))}
    </div>
  )
}

/** As many as there will be: nothing moves when they come. */
function placeholders({ document }: RunTable): FigureProps[] {
  return Array.from({ length: document.attempts > 1 ? 7 : 6 }, (_, index) => ({
    label: index === 0 ? 'Reward' : index === 1 ? 'Pass rate' : '\u00a0',
    value: '…',
    below: '\u00a0',
    query: '',
  }))
}

function figuresOf(table: RunTable, { stats, groups, behaviour }: RunStatistics): FigureProps[] {
  const rows = groups.rows
  return [
    {
      label: stats.measure === 'reward' ? 'Reward' : stats.measure,
      value: stats.mean.value?.toFixed(3) ?? unknown,
      beside: meanMargin(stats.mean),
      below: stats.mean.value === null ? noValues(table) : scale(table, rows),
      query: 'sort:reward',
    },
    {
      label: 'Pass rate',
      value: percent(stats.pass_rate.value),
      beside: shareMargin(stats.pass_rate),
      below: `${thousands(passes(table))} reach ${table.document.threshold}`,
      query: 'is:notpassed',
    },
    ...(table.document.attempts > 1 ? attemptFigures(table, stats) : []),
    {
      label: 'Tool errors',
      value: percent(behaviour.tool_error_rate.value),
      below:
        behaviour.tool_error_rate.tool_calls === 0
          ? 'no tool calls'
          : `of ${compact(behaviour.tool_error_rate.tool_calls)} calls`,
      isBad: (behaviour.tool_error_rate.value ?? 0) > badErrorRate,
      query: 'is:toolerror sort:-errors',
    },
    {
      label: 'Cut off',
      value: percent(behaviour.cut_off.value),
      below: rewrittenText(behaviour.rewritten.items),
      query: 'is:cut',
    },
    lengthFigure(behaviour),
  ]
}

function attemptFigures(table: RunTable, stats: RunStatistics['stats']): FigureProps[] {
  // Of a run that is under way no row may have all of its attempts yet.
  const best = stats.pass_at_k.findLast(({ value }) => value !== null)
  const gain = (best?.value ?? 0) - (stats.pass_rate.value ?? 0)
  return [
    {
      label: `Pass@${best?.k ?? table.document.attempts}`,
      value: percent(best?.value ?? null),
      beside: best && shareMargin(best),
      below: best === undefined ? 'no row has enough attempts' : gainText(gain, best.left_out),
      query: 'is:never',
    },
    {
      label: 'With a gradient',
      value: percent(stats.gradient.value, 0),
      beside: stats.gradient.rows > 0 ? `of ${counted(stats.gradient.rows, 'row')}` : undefined,
      below: `attempts differ in ${stats.measure}`,
      query: 'is:signal sort:-spread',
    },
  ]
}

function gainText(gain: number, leftOut: number): string {
  const rows = leftOut === 0 ? '' : `, without ${counted(leftOut, 'row')}`
  return `${signed(100 * gain)} points over one try${rows}`
}

function rewrittenText(items: number): string {
  if (items === 0) return 'no history rewritten'
  return items === 1 ? '1 history rewritten' : `${thousands(items)} histories rewritten`
}

/** Tokens, where the endpoint counts them, or else time. */
function lengthFigure({
  completion_tokens: tokens,
  seconds,
}: RunStatistics['behaviour']): FigureProps {
  if (tokens.mean.value === null) {
    return {
      label: 'Time per rollout',
      value: seconds.mean.value === null ? unknown : duration(1000 * seconds.mean.value),
      below: seconds.p95 === null ? '\u00a0' : `95 % end within ${duration(1000 * seconds.p95)}`,
      query: 'sort:-seconds',
    }
  }
  const { passed, others } = tokens
  return {
    label: 'Tokens per rollout',
    value: compact(tokens.mean.value),
    beside: 'out',
    below: `mean ${compact(passed)} passed, ${compact(others)} not`,
    query: 'sort:-tokens',
  }
}

function meanMargin({ value, ci95, rows }: Estimate): string | undefined {
  if (value === null || ci95 === null) return undefined
  if (rows < fewRows) return 'few rows'
  return intervalText(value, ci95, (each) => each.toFixed(3))
}

function shareMargin({ value, ci95 }: Estimate): string | undefined {
  return value === null || ci95 === null ? undefined : margin(value, ci95, points)
}

function scale(table: RunTable, rows: number): string {
  return `${counted(table.size, 'rollout')}, ${counted(rows, 'row')}`
}

function noValues(table: RunTable): string {
  return table.size === 0 ? 'no rollout has ended' : `no rollout has a ${table.measure}`
}

function passes({ groups }: RunTable): number {
  return groups.reduce((sum, { passed }) => sum + passed, 0)
}
