import { formatDollars, formatQuantity, type RunTable } from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'
import type { JSX } from 'preact'

import type { ItemEnding } from '../../src/wire.ts'
import { compact, duration, oneLine, rewardText } from '../format.ts'
import { Dot } from '../parts/dot.tsx'
import type { Go, Route } from '../route.ts'
import { givenId } from '../run/rollout-table.tsx'
import type { DisplayedRun } from '../run/use-run.ts'
import { Scores } from './scores.tsx'
import { explanation, labelOf } from './verdict.tsx'

interface ReaderHeadProps {
  readonly run: DisplayedRun
  readonly item: number
  readonly ending: ItemEnding | null
  readonly trajectory: Trajectory | null
  /** The attempt to compare with; null for none. */
  readonly other: number | null
  readonly route: Route
  readonly go: Go
  readonly onPick: (item: number | null) => void
  /** Ids of the samples of the rollout. */
  readonly samples: readonly string[]
  readonly sample: string | undefined
  readonly isRaw: boolean
  readonly onRaw: (isRaw: boolean) => void
}

/** The row, attempt and sample, and their figures. */
export function ReaderHead(props: ReaderHeadProps): JSX.Element {
  const { run, item, ending, trajectory, other, route, go, onPick, samples, sample } = props
  const { isRaw, onRaw } = props
  const { table } = run
  const { row, attempt } = table.document.columns
  const { key, place } = table.group(item)
  const id = givenId(key)
  const question = table.document.rows.question[place] ?? ''
  return (
    <div class="rhead">
      <div class="one">
        <h2>Row {row[item]}</h2>
        {id !== null && <code class="mono dim">{id}</code>}
        {id !== null && question !== '' && (
          <q class="asked cut" title={question}>
            {oneLine(question)}
          </q>
        )}
        <div class="tabs" role="group" aria-label="Attempts">
          {table.group(item).items.map((each) => (
            <button
              key={each}
              aria-pressed={each === item}
              title={`Attempt ${(attempt[each] ?? 0) + 1}`}
              onClick={() => onPick(each)}
            >
              <Dot table={table} item={each} />
              {rewardText(table.value(each))}
            </button>
          ))}
        </div>
        <span class="spring" />
        {other !== null && (
          <button
            class="btn"
            aria-pressed={route.divergence}
            onClick={() => go({ divergence: !route.divergence })}
          >
            {route.divergence ? 'One transcript' : besideText(table, item, other)} <kbd>d</kbd>
          </button>
        )}
        <button class="btn" aria-pressed={isRaw} onClick={() => onRaw(!isRaw)}>
          Raw <kbd>m</kbd>
        </button>
        <button class="btn" onClick={() => onPick(null)}>
          Close <kbd>esc</kbd>
        </button>
      </div>
      <Result {...{ table, item, trajectory }} />
      <Facts table={table} item={item} />
      <Scores {...{ table, item, ending, route, go }} />
      {samples.length > 1 && (
        <div class="tabs" role="group" aria-label="Samples">
          {samples.map((each) => (
            <button key={each} aria-pressed={each === sample} onClick={() => go({ sample: each })}>
              {each}
              <Reward value={ending?.rewards[each]} />
            </button>
          ))}
        </div>
      )}
    </div>
  )
}

/** The verdict with its reason, and the answer that was expected. */
function Result({
  table,
  item,
  trajectory,
}: Pick<ReaderHeadProps, 'item' | 'trajectory'> & { table: RunTable }): JSX.Element {
  const value = table.value(item)
  const label = labelOf(trajectory)
  return (
    <div class="result-head">
      <span>
        <Dot table={table} item={item} />{' '}
        <b>{value === null ? `no ${table.measure}` : rewardText(value)}</b>{' '}
        <span class="dim">{explanation(table, item)}</span>
      </span>
      {label !== null && (
        <span class="expected cut" title={label}>
          <span class="dim">expected</span> <b>{oneLine(label)}</b>
        </span>
      )}
    </div>
  )
}

/** The reward of a sample; nothing when there is none. */
function Reward({ value }: { value: number | null | undefined }): JSX.Element | null {
  return value === null || value === undefined ? null : <span class="dim">{rewardText(value)}</span>
}

function besideText(table: RunTable, item: number, other: number): string {
  const attempt = (table.document.columns.attempt[other] ?? 0) + 1
  const isOtherEnd = table.passed(other) !== table.passed(item)
  return `${isOtherEnd ? 'First difference from' : 'Compare with'} attempt ${attempt}`
}

function Facts({ table, item }: { table: RunTable; item: number }): JSX.Element {
  const { columns } = table.document
  const facets = Object.entries(table.facets(table.group(item)))
  const calls = columns.calls[item] ?? 0
  const tools = columns.toolCalls[item] ?? 0
  const errors = columns.toolErrors[item] ?? 0
  const prompt = columns.promptTokens[item] ?? null
  const written = columns.completionTokens[item] ?? null
  const cost = columns.costUsd[item] ?? null
  return (
    <div class="facts">
      {facets.map(([name, value]) => (
        <span key={name} class="chip">
          <span class="dim">{name.replaceAll('_', ' ')}</span> <b>{value}</b>
        </span>
      ))}
      <span>{formatQuantity(calls, 'model call')}</span>
      <span>
        {formatQuantity(tools, 'tool call')}
        {errors > 0 && <span class="alarm">, {errors} failed</span>}
      </span>
      {(prompt !== null || written !== null) && (
        <span>
          {compact(prompt)} in, {compact(written)} out
        </span>
      )}
      {cost !== null && <span>{formatDollars(cost)}</span>}
      <span>{duration(columns.durationMs[item] ?? 0)}</span>
    </div>
  )
}
