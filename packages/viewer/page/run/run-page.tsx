import {
  formatCount,
  formatQuantity,
  type Finding,
  parseQuery,
  parseRolloutName,
  rolloutName,
  selectItems,
} from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'

import { type Keys, useKeys } from '../keys.ts'
import type { OnNote } from '../note/note-form.tsx'
import type { Go, Route } from '../route.ts'
import type { Source } from '../source/source.ts'
import { Reader } from '../transcript/reader.tsx'
import { Distributions } from './distributions.tsx'
import { FacetLists } from './facets.tsx'
import { Figures } from './figures.tsx'
import { FilterBar } from './filter-bar.tsx'
import type { Filtering } from './filter-term.ts'
import { RolloutTable } from './rollout-table.tsx'
import { SignalMap } from './signal-map.tsx'
import type { DisplayedRun } from './use-run.ts'
import { useSettled, useStatistics } from './use-settled.ts'
import { useTextSearch } from './use-text-search.ts'

interface RunPageProps {
  readonly source: Source
  readonly run: DisplayedRun
  readonly route: Route
  readonly go: Go
  readonly look: string
}

/** A run: its figures, findings and rollouts, and the selected transcript. */
export function RunPage({ source, run, route, go, look }: RunPageProps): JSX.Element {
  const { table } = run
  const settled = useSettled(run)
  const statistics = useStatistics(settled)
  const field = useRef<HTMLInputElement>(null)
  const { words } = useMemo(() => parseQuery(route.query, table), [run, route.query])
  const search = useTextSearch(source, run, words)
  const query = useMemo(
    () => parseQuery(route.query, table, { found: search.found }),
    [run, route.query, search.found],
  )
  const list = useMemo(() => selectItems(table, query), [run, query])
  const shown = useMemo(() => maskOf(list, table.size), [list])
  const selected = useMemo(() => selectedItem(run, route.selected), [run, route.selected])
  const reading = selected !== null
  const work = useRef<HTMLDivElement>(null)
  const wasReading = useRef(reading)
  useLayoutEffect(() => {
    if (wasReading.current !== reading) keepFocus(work.current, reading)
    wasReading.current = reading
  }, [reading])
  const found = statistics?.findings ?? []

  const pick = (item: number | null): void => {
    if (item === null) go({ selected: '', divergence: false, sample: '' })
    else go({ selected: nameOf(run, item) })
  }
  const onQuery = (text: string): void => go({ query: text, selected: '', divergence: false })
  const at = selected === null ? -1 : list.indexOf(selected)
  useKeys({
    ...moveKeys({ run, list, at, selected, pick }),
    '/': () => field.current?.focus(),
    f: () => onQuery('is:notpassed'),
    g: () => onQuery(table.document.attempts > 1 ? 'is:signal sort:-spread' : ''),
    x: () => onQuery(''),
    Escape: () => {
      if (route.divergence) go({ divergence: false })
      else if (reading) pick(null)
      else onQuery('')
    },
    ...Object.fromEntries(
      found.slice(0, 9).map((finding, index) => [index + 1, () => onQuery(finding.query)]),
    ),
  })

  return (
    <main class="run">
      {run.progress.state === 'incomplete' && <Incomplete run={run} />}
      {!reading && <Figures {...{ table, statistics, onQuery }} />}
      <SignalMap
        {...{ run: settled, thin: reading, selected, look, shown, onPick: pick, onQuery }}
      />
      <div class={`work${reading ? ' reading' : ''}`} ref={work}>
        {!reading && (
          <nav class="side" aria-label="What to look at">
            <LookFirst
              list={found}
              query={route.query}
              isEmpty={table.size === 0}
              onQuery={onQuery}
            />
            <Distributions run={settled} query={route.query} onQuery={onQuery} />
            <FacetLists run={settled} query={route.query} onQuery={onQuery} />
          </nav>
        )}
        <div class="list">
          <FilterBar
            field={field}
            text={route.query}
            query={query}
            shown={list.length}
            all={table.size}
            isSearching={search.isSearching}
            onInput={(text) => go({ query: text })}
            onEnter={() => {
              pick(list[0] ?? null)
              // Keys belong to a field that is written in.
              focusOn(listOf(work.current))
            }}
          />
          <RolloutTable
            {...{ run, query, list, selected }}
            short={reading}
            onSort={(key) => go({ query: sortedBy(route.query, key, query.sort) })}
            onPick={pick}
            onClear={() => onQuery('')}
          />
        </div>
        {reading && (
          <Reader
            {...{ source, run, route, go }}
            item={selected}
            onPick={pick}
            onNote={noteWriter(source, run, selected)}
          />
        )}
      </div>
    </main>
  )
}

function listOf(work: Element | null): Element | null {
  return work?.querySelector('.list [role="listbox"]') ?? null
}

function focusOn(part: Element | null): void {
  if (part instanceof HTMLElement) part.focus({ preventScroll: true })
}

/**
 * A part that disappears takes the focus with it. Then the list has it, from which a transcript is opened; or the
 * transcript, where there is no room for the list beside it.
 */
function keepFocus(work: HTMLElement | null, reading: boolean): void {
  const list = listOf(work)
  const isListShown = list !== null && list.getClientRects().length > 0
  const { activeElement } = document
  const isLost = activeElement === null || activeElement === document.body
  if (isListShown && isLost) focusOn(list)
  if (reading && !isListShown && (isLost || work?.querySelector('.list')?.contains(activeElement)))
    focusOn(work?.querySelector('.reader [role="region"]') ?? null)
}

function Incomplete({ run: { progress } }: { run: DisplayedRun }): JSX.Element {
  const left = progress.total - progress.ended
  return (
    <div class="notice" role="status">
      <span>
        <b>Incomplete.</b> {formatCount(left)} of {formatQuantity(progress.total, 'rollout')}{' '}
        {left === 1 ? 'is' : 'are'} pending. {progress.reason !== null && sentence(progress.reason)}
      </span>
    </div>
  )
}

/** Makes a sentence of a reason, which may be a single word. */
function sentence(text: string): string {
  const started = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(started) ? started : `${started}.`
}

interface Place {
  readonly run: DisplayedRun
  readonly list: Int32Array
  readonly at: number
  readonly selected: number | null
  readonly pick: (item: number | null) => void
}

/** Keys that select another rollout. */
function moveKeys({ run: { table }, list, at, selected, pick }: Place): Keys {
  const move = (step: number) => () => {
    const place = Math.max(0, Math.min(list.length - 1, at < 0 ? 0 : at + step))
    const next = list[place]
    if (next !== undefined) pick(next)
  }
  const sibling = (step: number) => () => {
    if (selected === null) return
    const { items } = table.group(selected)
    const next = items[(items.indexOf(selected) + step + items.length) % items.length]
    if (next !== undefined) pick(next)
  }
  return {
    j: move(1),
    k: move(-1),
    ArrowDown: move(1),
    ArrowUp: move(-1),
    Enter: at < 0 ? move(0) : undefined,
    ']': sibling(1),
    '[': sibling(-1),
  }
}

function noteWriter(source: Source, run: DisplayedRun, item: number): OnNote | null {
  if (source.note === undefined) return null
  const { row, attempt } = run.table.document.columns
  const place = { source_row_index: row[item] ?? 0, run_index: attempt[item] ?? 0 }
  // The page receives the note as an update, like every other page.
  return async (tag, text) => source.note?.(run.name, { ...place, tag, text })
}

function maskOf(list: Int32Array, size: number): Uint8Array | null {
  if (list.length === size) return null
  const mask = new Uint8Array(size)
  for (const item of list) mask[item] = 1
  return mask
}

function selectedItem({ table }: DisplayedRun, name: string): number | null {
  const { row, attempt } = parseRolloutName(name) ?? {}
  return row === undefined || attempt === undefined ? null : (table.find(row, attempt) ?? null)
}

function nameOf({ table }: DisplayedRun, item: number): string {
  const { row, attempt } = table.document.columns
  return rolloutName({ source_row_index: row[item] ?? 0, run_index: attempt[item] ?? 0 })
}

/** The filter line sorted by another key, or in the other direction. */
function sortedBy(
  text: string,
  key: string,
  sort: { readonly key: string; readonly descending: boolean },
): string {
  const rest = text.replaceAll(/\s*\bsort:\S+/g, '')
  const descending = sort.key === key && !sort.descending
  return `${rest} sort:${descending ? '-' : ''}${key}`.trim()
}

/** The findings; the number is the key that filters by one. */
function LookFirst({
  list,
  query,
  isEmpty,
  onQuery,
}: Filtering & { list: readonly Finding[]; isEmpty: boolean }): JSX.Element {
  return (
    <section aria-label="Look at first">
      <h2>Look at first</h2>
      {list.map((finding, index) => (
        <button
          key={finding.key}
          class={`finding ${finding.tone}`}
          aria-pressed={query === finding.query}
          onClick={() => onQuery(query === finding.query ? '' : finding.query)}
        >
          <i />
          <div>
            <b>{finding.title}</b>
            <span>{finding.detail}</span>
          </div>
          {index < 9 ? <kbd>{index + 1}</kbd> : <span />}
        </button>
      ))}
      {list.length === 0 && (
        <p class="calm quiet">{isEmpty ? 'Nothing has ended yet.' : 'No issues found.'}</p>
      )}
    </section>
  )
}
