import { formatReward, type ItemEvent, type RunRow } from '@osmosis/eval/analysis'

import { osmosisCommand } from '../../command/output/shown-command.ts'
import { onOneLine, shortLine } from '../../command/terminal-text.ts'
import { itemName, type ShownItem } from '../show/shown-items.ts'
import type { ShownItems } from '../show/shown-run.ts'

/** An item that did not pass. */
type MissedItem = Omit<ShownItem, 'run'> & { readonly run: ShownItems }

/** A row as a test: all of its attempts. */
interface TestCase {
  readonly name: string
  readonly seconds: number
  readonly outcome: 'passed' | 'failure' | 'error' | 'skipped'
  /** What happened, in a few words; empty for a pass. */
  readonly message: string
  /** Each attempt that did not pass: why, and the command that shows its conversation. */
  readonly text: string
}

/**
 * The rows of a run as tests. A row passes when all of its attempts do. It is an error, and not a failure, when
 * an attempt has no result: its rollout failed, or has not ended.
 *
 * @param chosen - only these rollouts, all of which have ended. Default: all that the run has to execute
 */
export function testCases(run: ShownItems, chosen?: readonly ItemEvent[]): TestCase[] {
  const { rows, n } = run.reader.manifest
  const byRow = Map.groupBy(chosen ?? run.events, (event) => event.source_row_index)
  return rows.flatMap((row) => {
    const events = byRow.get(row.source_row) ?? []
    if (chosen === undefined) return [testCase(run, row, events, n - events.length)]
    return events.length === 0 ? [] : [testCase(run, row, events, 0)]
  })
}

function testCase(
  run: ShownItems,
  row: RunRow,
  events: readonly ItemEvent[],
  pending: number,
): TestCase {
  const counted = events.filter(({ status }) => status !== 'skipped')
  const missed = missedItems(run, counted)
  const failed = missed.filter(({ event }) => event.status === 'failed').length
  const [only] = missed
  const of = `of ${attempts(counted.length)}`
  const facts = [
    ...(failed === 0 ? [] : [`${failed} ${of} failed`]),
    ...(missed.length === failed ? [] : [`${missed.length - failed} ${of} did not pass`]),
    ...(pending === 0 ? [] : [`${attempts(pending)} did not run to the end`]),
  ]
  const allSkipped = counted.length === 0 && pending === 0
  return {
    name: `row ${row.source_row}`,
    seconds: events.reduce((sum, event) => sum + event.duration_ms, 0) / 1000,
    outcome:
      failed > 0 || pending > 0
        ? 'error'
        : missed.length > 0
          ? 'failure'
          : allSkipped
            ? 'skipped'
            : 'passed',
    message: allSkipped
      ? 'the grader removed all samples'
      : only !== undefined && counted.length + pending === 1
        ? shortLine(verdict(only))
        : facts.join(', '),
    text: missed.map(reasonText).join('\n'),
  }
}

/** The items among these events that did not pass, without those whose samples were all removed. */
function missedItems(run: ShownItems, events: readonly ItemEvent[]): MissedItem[] {
  return events.flatMap((event) => {
    const item = run.table.find(event.source_row_index, event.run_index)
    if (item === undefined || !run.table.counts(item) || run.table.passed(item)) return []
    return [{ run, item, event }]
  })
}

/** `reward 0, and 1 passes`; for a rollout that failed, its error. */
function verdict({ event, item, run: { table } }: MissedItem): string {
  if (event.status === 'failed')
    return `${event.error_type ?? 'failed'}: ${event.error_message ?? ''}`
  const measure = onOneLine(table.measure)
  const value = table.value(item)
  if (value === null) return `no ${measure}`
  return `${measure} ${formatReward(value)}, and ${formatReward(table.document.threshold)} passes`
}

function attempts(count: number): string {
  return `${count} attempt${count === 1 ? '' : 's'}`
}

/** Why an attempt did not pass, and the command that shows its conversation. */
function reasonText(missed: MissedItem): string {
  const { event, run } = missed
  const { score_errors: scoreErrors = {}, scores = {}, metrics } = event
  const numbers = [...Object.entries(metrics), ...Object.entries(scores)]
  return [
    `${itemName(missed)}: ${verdict(missed)}`,
    ...(numbers.length === 0
      ? []
      : [`  ${numbers.map(([name, number]) => `${name} ${formatReward(number)}`).join(', ')}`]),
    ...Object.entries(scoreErrors).map(([name, error]) => `  no ${name}: ${error}`),
    ...(event.status === 'failed' || event.summary === '' ? [] : [`  ends with: ${event.summary}`]),
    `  ${osmosisCommand('eval', 'show', run.command, itemName(missed))}`,
    '',
  ].join('\n')
}

/** A run as JUnit XML: one suite, with a test case for each row. */
export function* junitLines(run: ShownItems, cases: readonly TestCase[]): Generator<string> {
  const { document } = run.table
  const count = (outcome: TestCase['outcome']): number =>
    cases.filter((one) => one.outcome === outcome).length
  const totals = attributes({
    tests: cases.length,
    failures: count('failure'),
    errors: count('error'),
    skipped: count('skipped'),
    time: cases.reduce((sum, { seconds }) => sum + seconds, 0).toFixed(3),
  })
  // Schemas of JUnit have times without a zone.
  const suite = { name: run.name, timestamp: document.startedAt.slice(0, 19) }
  yield '<?xml version="1.0" encoding="UTF-8"?>\n'
  yield `<testsuites${attributes({ name: 'osmosis eval' })}${totals}>\n`
  yield `  <testsuite${attributes(suite)}${totals}>\n`
  yield '    <properties>\n'
  for (const [name, value] of [
    ['model', document.model],
    ['dataset', document.dataset],
  ] as const)
    yield `      <property${attributes({ name, value })}/>\n`
  yield '    </properties>\n'
  for (const one of cases) yield caseText(one, document.rollout)
  yield '  </testsuite>\n</testsuites>\n'
}

function caseText({ name, seconds, outcome, message, text }: TestCase, classname: string): string {
  const start = `    <testcase${attributes({ classname, name, time: seconds.toFixed(3) })}`
  if (outcome === 'passed') return `${start}/>\n`
  const about = attributes({ message })
  const inside =
    outcome === 'skipped'
      ? `<skipped${about}/>`
      : `<${outcome}${about}${attributes({ type: outcome })}>${escaped(text)}</${outcome}>`
  return `${start}>\n      ${inside}\n    </testcase>\n`
}

function attributes(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${escaped(String(value)).replaceAll('\n', '&#10;')}"`)
    .join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  // A parser would make a line feed of it.
  '\r': '&#13;',
}

/** Text in XML 1.0. What its documents cannot hold, such as control characters, is written as `\u001b`. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(
      /[^\P{Cc}\t\n\r]|[\uFFFE\uFFFF]/gu,
      (character) => String.raw`\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    .replaceAll(/[&<>"\r]/g, (character) => entities[character] ?? character)
}
