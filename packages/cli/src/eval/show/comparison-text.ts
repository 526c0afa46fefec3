import { formatCount, formatQuantity, formatReward, formatShare } from '@osmosis/eval'
import {
  halfWidth,
  type BehaviourChange,
  type Comparison,
  type PairedDifference,
  type RowChange,
  unitText,
} from '@osmosis/eval/analysis'

import { onOneLine, styled, tableLines, wrapped, type Cell } from '../../command/terminal-text.ts'
import { points, valueText, type Scale } from './figure-text.ts'
import { commandLines } from './shell-command.ts'
import { itemName, itemsOf, type ShownItem } from './shown-items.ts'
import type { ShownRun } from './shown-run.ts'

/** Two runs, and what became of them. */
export interface ComparedRuns {
  readonly a: ShownRun
  readonly b: ShownRun
  readonly comparison: Comparison
  /** The facet by which the rows are compared as well. */
  readonly by: string | undefined
}

const mostLosses = 5

/** Lines for people: what it comes to, first of all. */
export function comparisonLines(runs: ComparedRuns, width: number): string[] {
  const { comparison, by } = runs
  const { verdict, facets } = comparison
  const behaviour = comparison.behaviour.filter(({ before, after }) => before !== 0 || after !== 0)
  const format = toneFormats[verdict.tone]
  const head = ['', 'Before', 'After', 'Change'].map((text): Cell => ({ text, format: 'dim' }))
  const sections = [
    wrapped(`${verdict.lead}${verdict.rest}`, width).map((line) => styled(format, line)),
    [runLine('Before', runs.a), runLine('After', runs.b)],
    [...tableLines([head, mainRow(runs)], { right: [1, 2, 3] }), ...wrapped(rowsText(runs), width)],
    ...(facets.length === 0
      ? []
      : [
          [
            styled('bold', `By ${onOneLine(by ?? '')}`),
            ...tableLines(facetRows(runs), { right: [1, 2] }),
          ],
        ]),
    behaviour.length === 0
      ? []
      : [
          styled('bold', 'Behaviour'),
          ...tableLines([head, ...behaviour.map(behaviourRow)], { right: [1, 2, 3] }),
        ],
    lossLines(runs),
  ]
  return sections
    .filter((lines) => lines.length > 0)
    .flatMap((lines, at) => (at === 0 ? lines : ['', ...lines]))
}

/** The same without the rows, for a pull request; line feeds in between. */
export function comparisonMarkdown(runs: ComparedRuns): string {
  const { comparison, a, b, by } = runs
  const { verdict, facets } = comparison
  const behaviour = comparison.behaviour.filter(({ before, after }) => before !== 0 || after !== 0)
  const table = (
    rows: readonly (readonly (Cell | string)[])[],
    head: readonly string[],
  ): string[] => [
    `| ${head.join(' | ')} |`,
    `| ${head.map((_, at) => (at === 0 ? '---' : '---:')).join(' | ')} |`,
    ...rows.map((row) => `| ${row.map((cell) => markdownText(cell)).join(' | ')} |`),
  ]
  return [
    `**${verdict.lead}**${verdict.rest}`,
    '',
    ...table(
      [mainRow(runs), ...behaviour.map(behaviourRow)],
      [
        '',
        markdownText(`${a.name} (${a.table.document.model})`),
        markdownText(`${b.name} (${b.table.document.model})`),
        'Change',
      ],
    ),
    '',
    rowsText(runs),
    ...(facets.length === 0
      ? []
      : [
          '',
          ...table(
            facetRows(runs)
              .slice(1)
              .map((row) => row.slice(0, 3)),
            [markdownText(by ?? ''), 'Rows', 'Change'],
          ),
        ]),
  ].join('\n')
}

const toneFormats = { better: 'green', worse: 'red', none: 'bold', unknown: 'yellow' } as const

function markdownText(cell: Cell | string): string {
  const text = onOneLine(typeof cell === 'string' ? cell : cell.text)
  return text.replaceAll(/[\\|`*_<>[\]]/g, String.raw`\$&`)
}

function runLine(label: string, { name, table }: ShownRun): string {
  return `${styled('dim', label.padEnd(6))}  ${styled('bold', name)}  ${onOneLine(table.document.model)}`
}

function scaleOf({ metric }: Comparison): Scale {
  return metric === 'pass' ? 'share' : 'plain'
}

function mainRow({ comparison, b }: ComparedRuns): (Cell | string)[] {
  const { metric, before, after, difference, verdict } = comparison
  const scale = scaleOf(comparison)
  const measure = onOneLine(b.table.measure)
  return [
    metric === 'pass' ? 'Pass rate' : measure === 'reward' ? 'Reward' : measure,
    valueText(before, scale),
    valueText(after, scale),
    { text: changeText(difference, scale), format: toneFormats[verdict.tone] },
  ]
}

function rowsText({ comparison, a, b }: ComparedRuns): string {
  const { difference, onlyA, onlyB, lostSure } = comparison
  const { rows, better, worse, same } = difference
  const sentences = [
    `${formatQuantity(rows, 'row')} in both: ${formatCount(better)} better, ${formatCount(worse)} worse, ${formatCount(same)} the same`,
    ...(lostSure > 0
      ? [
          `${formatQuantity(lostSure, 'row')} always passed before and no longer ${lostSure === 1 ? 'does' : 'do'}`,
        ]
      : []),
    ...(onlyA > 0 ? [`${formatQuantity(onlyA, 'row')} only before`] : []),
    ...(onlyB > 0 ? [`${formatQuantity(onlyB, 'row')} only after`] : []),
    ...(a.table.document.threshold === b.table.document.threshold
      ? []
      : [
          `a pass is ${formatReward(a.table.document.threshold)} or more before and ${formatReward(b.table.document.threshold)} or more after`,
        ]),
  ]
  return `${sentences.join('; ')}.`
}

/** `+3.4 points ± 1.5`. */
function changeText(difference: PairedDifference, scale: Scale): string {
  const { value } = difference
  if (value === null) return ''
  const half = halfWidth(difference)
  if (scale === 'share') {
    return `${signOf(value)}${points(Math.abs(value))} points${half === null ? '' : ` ± ${points(half)}`}`
  }
  return `${signOf(value)}${formatReward(Math.abs(value))}${half === null ? '' : ` ± ${formatReward(half)}`}`
}

function signOf(value: number): string {
  return value < 0 ? '−' : '+'
}

function facetRows({ comparison }: ComparedRuns): (Cell | string)[][] {
  const head = ['', 'Rows', 'Change', ''].map((text): Cell => ({ text, format: 'dim' }))
  return [
    head,
    ...comparison.facets.map(({ value, difference, verdict }) => [
      onOneLine(value),
      formatCount(difference.rows),
      changeText(difference, scaleOf(comparison)),
      { text: facetWords[verdict.tone], format: toneFormats[verdict.tone] },
    ]),
  ]
}

const facetWords = { better: 'better', worse: 'worse', none: '', unknown: 'too few rows' } as const

/** Bold where it is no chance. */
function behaviourRow({
  title,
  unit,
  before,
  after,
  difference,
}: BehaviourChange): (Cell | string)[] {
  const half = halfWidth(difference)
  const change = difference.value ?? 0
  const isSure = half !== null && Math.abs(change) > half
  const text = `${signOf(change)}${amountText(Math.abs(change), unit, true)}${half === null ? '' : ` ± ${halfText(half, unit)}`}`
  return [
    title,
    amountText(before, unit),
    amountText(after, unit),
    { text: change === 0 ? '' : text, format: isSure ? 'bold' : 'dim' },
  ]
}

function halfText(half: number, unit: BehaviourChange['unit']): string {
  return unit === 'share' ? points(half) : amountText(half, unit)
}

function amountText(value: number, unit: BehaviourChange['unit'], isChange = false): string {
  switch (unit) {
    case 'share':
      return isChange ? `${points(value)} points` : formatShare(value)
    case 'usd':
      return unitText(value, 'dollars')
    case 'seconds':
      return `${value.toFixed(1)} s`
    case 'count':
      return value < 99.95 ? value.toFixed(1) : formatCount(Math.round(value))
  }
}

/** The rows that lost most, each with the command that shows first difference to before. */
function lossLines({ a, b, comparison }: ComparedRuns): string[] {
  const lost = comparison.rows.filter(({ change }) => change < 0)
  if (lost.length === 0) return []
  const scale = scaleOf(comparison)
  return [
    styled(
      'bold',
      lost.length > mostLosses ? `Largest losses, of ${formatCount(lost.length)}` : 'Losses',
    ),
    ...lost.slice(0, mostLosses).flatMap((row) => {
      const change = `${valueText({ value: row.before }, scale)} → ${valueText({ value: row.after }, scale)}`
      const facets = Object.entries(b.table.facets(row.b)).map(
        ([name, value]) => `${onOneLine(name)} ${onOneLine(value)}`,
      )
      const facts = [`row ${row.b.row}`, ...facets].join(', ')
      return [`${styled('red', change)}  ${facts}`, ...commandLines(divergenceCommand(a, b, row))]
    }),
  ]
}

/** The worst of the attempts after against the best before. */
function divergenceCommand(a: ShownRun, b: ShownRun, row: RowChange): string[] {
  const [worst] = byValue(b, row.b.row)
  const best = byValue(a, row.a.row).at(-1)
  const show = ['eval', 'show', b.command]
  if (worst === undefined || best === undefined) return [...show, String(row.b.row)]
  return [...show, itemName(worst), '--diff', `${a.command}:${itemName(best)}`]
}

/** The attempts at a row, the least first; without a value least of all. */
function byValue(run: ShownRun, row: number): ShownItem[] {
  const value = ({ item }: ShownItem): number => run.table.value(item) ?? Number.NEGATIVE_INFINITY
  return itemsOf(run, row).toSorted((one, other) =>
    value(one) < value(other) ? -1 : Number(value(one) > value(other)),
  )
}
