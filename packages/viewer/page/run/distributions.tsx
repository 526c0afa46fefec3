import { formatQuantity, numberReader, type RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

import { compact, rewardText } from '../format.ts'
import { ticksOf } from '../parts/scale.ts'
import { type Filtering, hasTerm, toggleTerm } from './filter-term.ts'
import type { DisplayedRun } from './use-run.ts'

/** The numbers that are shown, as filters name them. */
const shown = [
  ['reward', 'Reward'],
  ['tokens', 'Tokens'],
  ['turns', 'Model calls'],
  ['seconds', 'Seconds'],
] as const

/** At most about as many bars as can be clicked beside one another. */
const bars = 7

interface Bin {
  readonly from: number
  readonly to: number
  readonly count: number
}

/** Histograms of the rollouts; a bar is a filter. */
export function Distributions({
  run,
  query,
  onQuery,
}: Filtering & { run: DisplayedRun }): JSX.Element | null {
  const { table } = run
  const histograms = useMemo(
    () => shown.map(([key, title]) => ({ key, title, bins: binsOf(table, key) })),
    [run],
  )
  const used = histograms.filter(({ bins }) => bins.length > 1)
  if (used.length === 0) return null
  return (
    <section aria-label="Distributions">
      <h2>Distributions</h2>
      {used.map(({ key, title, bins }) => (
        <Histogram key={key} {...{ name: key, title, bins, query, onQuery }} />
      ))}
    </section>
  )
}

function Histogram({
  name,
  title,
  bins,
  query,
  onQuery,
}: Filtering & { name: string; title: string; bins: readonly Bin[] }): JSX.Element {
  const most = Math.max(...bins.map(({ count }) => count))
  const [first, last] = [bins[0]?.from ?? 0, bins.at(-1)?.to ?? 0]
  return (
    <div class="histogram" role="group" aria-label={title}>
      <div class="bars">
        {bins.map(({ from, to, count }, at) => {
          const term = termOf(name, from, to, at === bins.length - 1)
          const text = `${title} ${valueText(from)} to ${valueText(to)}: ${formatQuantity(count, 'rollout')}`
          return (
            <button
              key={from}
              disabled={count === 0}
              aria-pressed={hasTerm(query, term)}
              aria-label={text}
              title={text}
              onClick={() => onQuery(toggleTerm(query, term))}
            >
              <i style={{ height: count === 0 ? 0 : `${Math.max(4, (100 * count) / most)}%` }} />
            </button>
          )
        })}
      </div>
      <div class="ends">
        <span>{valueText(first)}</span>
        <span>{title}</span>
        <span>{valueText(last)}</span>
      </div>
    </div>
  )
}

/** A bin has its lower end; the last one its upper end, too. */
function termOf(name: string, from: number, to: number, isLast: boolean): string {
  return `${name}>=${from} ${name}${isLast ? '<=' : '<'}${to}`
}

function binsOf(table: RunTable, key: string): Bin[] {
  const read = numberReader(key, table)
  if (read === undefined) return []
  const values = Array.from({ length: table.size }, (_, item) => read(item)).filter((value) =>
    Number.isFinite(value),
  )
  // A run may have more values than a call takes arguments.
  const low = values.reduce((least, value) => Math.min(least, value), Infinity)
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity)
  if (low >= high) return []
  const edges = ticksOf(low, high, bars)
  const width = (edges[1] ?? 1) - (edges[0] ?? 0)
  const counts = edges.slice(1).map(() => 0)
  for (const value of values) {
    const place = Math.min(counts.length - 1, Math.floor((value - (edges[0] ?? 0)) / width + 1e-9))
    counts[place] = (counts[place] ?? 0) + 1
  }
  return counts.map((count, at) => ({ from: edges[at] ?? 0, to: edges[at + 1] ?? 0, count }))
}

function valueText(value: number): string {
  return value >= 1000 ? compact(value) : rewardText(value)
}
