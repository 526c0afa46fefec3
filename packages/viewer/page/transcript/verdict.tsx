import type { Trajectory } from '@osmosis/core/trajectory'
import type { RunTable, UnearnedReason } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { Dot } from '../parts/dot.tsx'
import { rewardText } from '../format.ts'
import { LongText } from './long-text.tsx'

const reasons: Record<UnearnedReason, string> = {
  notools: 'it called no tool, where nearly all passes do',
  short: 'it wrote less than a quarter of what passes write',
  check: 'it failed a check that nearly all passes meet',
  sametext: 'it ended with words that pass in other rows as well',
}

/** What the grader said of an attempt, and the facts that it had. */
export function Verdict({
  table,
  item,
  trajectory,
}: {
  table: RunTable
  item: number
  trajectory: Trajectory | null
}): JSX.Element {
  const value = table.value(item)
  const facts = factsOf(table, item, trajectory)
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

function explanation(table: RunTable, item: number): string {
  const { columns, threshold } = table.document
  if (columns.status[item] === 1) return columns.summary[item] ?? ''
  if (!table.counts(item)) return 'taken out of training: no figure counts it'
  if (table.value(item) === null) return 'the grader gave none'
  const verdict = table.passed(item) ? `passes at ${threshold}` : `below ${threshold}`
  const hints = table.unearned(item).map((reason) => reasons[reason])
  return hints.length === 0 ? verdict : `${verdict}, but ${hints.join(', and ')}`
}

function factsOf(
  table: RunTable,
  item: number,
  trajectory: Trajectory | null,
): (readonly [name: string, text: string])[] {
  const { metrics, scores } = table.document.columns
  const osmosis = fieldsOf(trajectory?.extra?.['osmosis'])
  const of = (columns: Record<string, (number | null)[]>): [string, string][] =>
    Object.entries(columns).flatMap(([name, values]) => {
      const value = values[item] ?? null
      return value === null ? [] : [[name, rewardText(value)]]
    })
  const others = Object.entries(fieldsOf(osmosis['sample_metrics'])).flatMap(
    ([name, value]): [string, string][] =>
      Object.hasOwn(metrics, name) || value === null ? [] : [[name, asText(value)]],
  )
  const label = osmosis['label']
  const labels: [string, string][] = label === undefined ? [] : [['label', asText(label)]]
  return [...of(scores), ...of(metrics), ...others, ...labels]
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
