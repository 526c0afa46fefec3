import type { RunTable, SuspicionReason } from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'
import type { JSX } from 'preact'

import type { ItemEnding } from '../../src/wire.ts'
import { rewardText } from '../format.ts'
import { Dot, type ItemProps } from '../parts/dot.tsx'
import { LongText } from '../text/long-text.tsx'
import { scoresOf } from './scores.tsx'

const reasons: Record<SuspicionReason, string> = {
  notools: 'it called no tool, and nearly all passes do',
  short: 'it has less than a quarter of the tokens of the median pass',
  check: 'it failed a check that nearly all passes meet',
  sametext: 'its last text passes in other rows too',
}

/** The result of the grader for an attempt, and its facts. */
export function Verdict({
  table,
  item,
  ending,
  trajectory,
}: ItemProps & { ending: ItemEnding | null; trajectory: Trajectory | null }): JSX.Element {
  const value = table.value(item)
  const facts = factsOf(table, item, ending, trajectory)
  return (
    <div class="verdict">
      <div class="result-line">
        <Dot table={table} item={item} />
        <b>{value === null ? `no ${table.measure}` : rewardText(value)}</b>
        <span class="dim">{explanation(table, item)}</span>
      </div>
      {facts.length > 0 && (
        <dl>
          {facts.map(([name, text]) => (
            <>
              <dt>{name}</dt>
              <dd>
                <LongText text={text} characters={600} lines={12} />
              </dd>
            </>
          ))}
        </dl>
      )}
    </div>
  )
}

/** Why an item passes or not, in words. */
export function explanation(table: RunTable, item: number): string {
  const { threshold } = table.document
  const error = table.errorType(item)
  if (error !== null) return `failed: ${error.replaceAll('_', ' ')}`
  if (!table.counts(item)) return 'removed from training and from all figures'
  if (table.value(item) === null) return 'the grader returned none'
  const verdict = table.passed(item) ? `passes at ${threshold}` : `below ${threshold}`
  const hints = table.suspicions(item).map((reason) => reasons[reason])
  return hints.length === 0 ? verdict : `${verdict}; suspicious: ${hints.join(', and ')}`
}

function factsOf(
  table: RunTable,
  item: number,
  ending: ItemEnding | null,
  trajectory: Trajectory | null,
): (readonly [name: string, text: string])[] {
  const { metrics } = table.document.columns
  const osmosis = fieldsOf(trajectory?.extra?.['osmosis'])
  const scores = scoresOf(table, item).map(([name, value]) => [name, rewardText(value)] as const)
  const failed = Object.entries(ending?.scoreErrors ?? {})
  const verdicts = Object.entries(ending?.verdicts ?? {}).map(
    ([check, text]) => [`audit: ${check}`, text] as const,
  )
  const others = Object.entries(fieldsOf(osmosis['sample_metrics'])).flatMap(
    ([name, value]): [string, string][] =>
      Object.hasOwn(metrics, name) || value === null ? [] : [[name, asText(value)]],
  )
  const label = labelOf(trajectory)
  const labels: [string, string][] = label === null ? [] : [['label', label]]
  return [...verdicts, ...scores, ...failed, ...others, ...labels]
}

/** The expected answer of the row; null when it has none. */
export function labelOf(trajectory: Trajectory | null): string | null {
  const label = fieldsOf(trajectory?.extra?.['osmosis'])['label']
  return label === undefined || label === null ? null : asText(label)
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
