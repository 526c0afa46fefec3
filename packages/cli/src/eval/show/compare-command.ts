import {
  behaviourTexts,
  changeText,
  formatCount,
  formatQuantity,
  formatReward,
  compareRuns,
  type Comparison,
  inputChanges,
  type BehaviourChange,
  type RowChange,
} from '@osmosis/eval/analysis'

import { printJson, printOut } from '../../command/command-context.ts'
import { gateFailedCode } from '../../command/exit-codes.ts'
import {
  type Block,
  dim,
  heading,
  look,
  printReport,
  type Report,
  reportMarkdown,
  type Section,
} from '../../command/output/report.ts'
import { type Cell, printMessage } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import type { EvalCompareFlags } from '../compare.ts'
import { valueText, type Scale } from './figure-text.ts'
import { itemName, itemsOf, type ShownItem } from './shown-items.ts'
import { findRun, lastComparableRuns, runsRoot, openShownRun, type ShownRun } from './shown-run.ts'

/**
 * Compares two runs over the rows that both have. Resolves with the exit code: 3 when B is worse by more
 * than `--fail-if-worse` allows, and the 95 % interval of the loss is on that side of 0.
 *
 * @throws OsmosisError with code `invalid_config` for a run or facet that is not there, and for runs
 * without a row in common; `damaged_run`
 */
export async function evalCompareCommand(
  nameA: string | undefined,
  nameB: string | undefined,
  flags: EvalCompareFlags,
): Promise<number> {
  const root = await runsRoot(flags.output)
  const [a, b] =
    nameA === undefined ? await lastComparableRuns(root) : await namedRuns(nameA, nameB, root)
  if (a.reader.location === b.reader.location && a.name === b.name) {
    printMessage(`warning: ${a.name} is compared with itself.`)
  }
  const { metric, by, failIfWorse } = flags
  const facet = by === undefined ? undefined : facetOf(b, by)
  const comparison = compareRuns(a.table, b.table, {
    metric,
    ...(facet !== undefined && { by: facet }),
  })
  if (comparison.difference.rows === 0) {
    throw invalid(
      `${a.name} and ${b.name} have no row in common that has ${metric === 'pass' ? 'ended' : 'a value'} in both. Rows are the same when their id column is, else when prompt, label and metadata are.`,
    )
  }
  const runs: ComparedRuns = { a, b, comparison, by: facet }
  print(flags, runs)
  if (failIfWorse === undefined || !isWorse(comparison, failIfWorse === true ? 0 : failIfWorse))
    return 0
  const limit =
    failIfWorse === true
      ? ''
      : ` more than ${failIfWorse} ${metric === 'pass' ? 'points' : ''}`.trimEnd()
  printMessage(
    `error: ${b.name} is worse than ${a.name}, by${limit === '' ? ' more than these rows vary' : limit}.`,
  )
  return gateFailedCode
}

async function namedRuns(
  before: string,
  after: string | undefined,
  root: string,
): Promise<readonly [ShownRun, ShownRun]> {
  if (after === undefined) {
    throw invalid(
      `Name the run that ${before} is compared with, or none, which compares the last two.`,
    )
  }
  return [
    await openShownRun(await findRun(before, root)),
    await openShownRun(await findRun(after, root)),
  ]
}

/** Whether there is a significant loss above the limit: in points of the pass rate, else in rewards. */
function isWorse({ verdict, difference: { value }, metric }: Comparison, most: number): boolean {
  if (verdict.tone !== 'worse' || value === null) return false
  const loss = metric === 'pass' ? -100 * value : -value
  // A rounding error must not exceed the limit.
  return loss > most + 1e-9
}

/** A facet, in the spelling of the run. */
function facetOf({ table, name }: ShownRun, wanted: string): string {
  const names = Object.keys(table.document.rows.facets)
  const found = names.find((own) => own.toLowerCase() === wanted.toLowerCase())
  if (found !== undefined) return found
  const known =
    names.length === 0 ? 'they have no metadata to group by' : `there are ${names.join(', ')}`
  throw invalid(`The rows of ${name} have no ${wanted}: ${known}.`)
}

function print({ json, markdown }: EvalCompareFlags, runs: ComparedRuns): void {
  if (json === true) printJson(comparisonDocument(runs))
  else if (markdown === true) printOut(`${reportMarkdown(markdownReport(runs))}\n`)
  else printReport(comparisonReport(runs))
}

function comparisonDocument({ a, b, comparison }: ComparedRuns): object {
  const { rows, ...figures } = comparison
  return {
    a: a.name,
    b: b.name,
    changed: inputChanges(a.table.document, b.table.document),
    ...figures,
    rows: rows.map(({ a: left, b: right, ...row }) => ({
      ...row,
      row_a: left.row,
      row_b: right.row,
    })),
  }
}

/** Two runs and their comparison. */
interface ComparedRuns {
  readonly a: ShownRun
  readonly b: ShownRun
  readonly comparison: Comparison
  /** The facet by which the rows are compared as well. */
  readonly by: string | undefined
}

const mostLosses = 5

/** The verdict first. */
function comparisonReport(runs: ComparedRuns): Report {
  const { comparison, by, a, b } = runs
  const { tone, lead, rest } = comparison.verdict
  const head = ['', 'Before', 'After', 'Change']
  const right = [1, 2, 3]
  const behaviour = behaviourRows(comparison)
  return [
    [look(lead + rest, toneFormats[tone])],
    [runBlock('Before', a), runBlock('After', b)],
    changedSection(runs),
    [{ head, table: [mainRow(runs)], right }, rowsText(runs)],
    comparison.facets.length === 0
      ? []
      : [
          heading(`By ${by}`),
          { head: ['', 'Rows', 'Change', ''], table: facetRows(comparison), right: [1, 2] },
        ],
    behaviour.length === 0 ? [] : [heading('Behaviour'), { head, table: behaviour, right }],
    lossSection(runs),
  ]
}

/** What a pull request needs of it: all but the rows. */
function markdownReport(runs: ComparedRuns) {
  const { comparison, a, b, by } = runs
  const { lead, rest } = comparison.verdict
  const names = [a, b].map(({ name, table: { document } }) => `${name} (${document.model})`)
  const facetCells = facetRows(comparison).map((row) => row.slice(0, 3))
  return [
    [[heading(lead), rest]],
    [
      {
        head: ['', ...names, 'Change'],
        table: [mainRow(runs), ...behaviourRows(comparison)],
        right: [1, 2, 3],
      },
    ],
    [rowsText(runs)],
    changedSection(runs),
    [{ head: [by ?? '', 'Rows', 'Change'], table: facetCells, right: [1, 2] }],
  ]
}

/** What differs between the inputs of the runs. */
function changedSection({ a, b }: ComparedRuns) {
  const changes = inputChanges(a.table.document, b.table.document)
  const rows = changes.map(({ name, before, after }) => [
    name,
    before ?? 'not set',
    after ?? 'not set',
  ])
  return [{ head: ['Changed', 'Before', 'After'], table: rows }]
}

const toneFormats = { better: 'green', worse: 'red', none: 'bold', unknown: 'yellow' } as const

function runBlock(label: string, { name, table: { document } }: ShownRun): Block {
  return {
    facts: [heading(name), document.model],
    separator: '  ',
    head: [dim(label.padEnd(6)), '  '],
  }
}

function scaleOf({ metric }: Comparison): Scale {
  return metric === 'pass' ? 'share' : 'plain'
}

function mainRow({ comparison, b }: ComparedRuns): (Cell | string)[] {
  const { metric, before, after, difference, verdict } = comparison
  const scale = scaleOf(comparison)
  const { measure } = b.table
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

function facetRows(comparison: Comparison): (Cell | string)[][] {
  return comparison.facets.map(({ value, difference, verdict }) => [
    value,
    formatCount(difference.rows),
    changeText(difference, scaleOf(comparison)),
    { text: facetLabels[verdict.tone], format: toneFormats[verdict.tone] },
  ])
}

const facetLabels = { better: 'better', worse: 'worse', none: '', unknown: 'too few rows' } as const

function behaviourRows({ behaviour }: Comparison): (Cell | string)[][] {
  return behaviour.filter(({ before, after }) => before !== 0 || after !== 0).map(behaviourRow)
}

/** Significant changes are bold. */
function behaviourRow(behaviour: BehaviourChange): (Cell | string)[] {
  const { before, after, change, isSure } = behaviourTexts(behaviour)
  return [behaviour.title, before, after, look(change, isSure ? 'bold' : 'dim')]
}

/** The rows that lost most, each with the command that shows its worst attempt. */
function lossSection({ b, comparison }: ComparedRuns): Section {
  const lost = comparison.rows.filter(({ change }) => change < 0)
  if (lost.length === 0) return []
  const scale = scaleOf(comparison)
  return [
    heading(lost.length > mostLosses ? `Largest losses, of ${formatCount(lost.length)}` : 'Losses'),
    ...lost.slice(0, mostLosses).flatMap((row) => {
      const change = `${valueText({ value: row.before }, scale)} → ${valueText({ value: row.after }, scale)}`
      const facets = Object.entries(b.table.facets(row.b)).map((facet) => facet.join(' '))
      return [
        {
          facts: [`row ${row.b.row}`, ...facets],
          separator: ', ',
          head: [look(change, 'red'), '  '],
        },
        { command: ['eval', 'show', b.command, worstAttempt(b, row)] },
      ]
    }),
  ]
}

/** `12.1`: the attempt at the row with the least value; one without a value comes first. */
function worstAttempt(run: ShownRun, { b: { row } }: RowChange): string {
  const value = ({ item }: ShownItem): number => run.table.value(item) ?? Number.NEGATIVE_INFINITY
  const [first, ...others] = itemsOf(run, row)
  if (first === undefined) return String(row)
  return itemName(others.reduce((least, one) => (value(one) < value(least) ? one : least), first))
}
