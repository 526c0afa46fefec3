import { points } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

import type { RunListing, RunSummary } from '../../src/wire.ts'
import { percent, margin } from '../format.ts'
import { Trend } from '../parts/trend.tsx'
import { type Go, hrefOf } from '../route.ts'
import type { Source } from '../source/source.ts'
import { CopyButton } from '../text/block.tsx'
import { RunLine } from './run-line.tsx'
import {
  compare,
  groupRuns,
  isSummary,
  matches,
  type RunGroup,
  type RunKey,
  type RunOrder,
} from './run-order.ts'
import { TrainingList } from './training-list.tsx'

/** Interval of reading the list again: normally, and while runs are still being read. Milliseconds. */
const refreshMs = 3000
const readingMs = 400

type Listing =
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }
  | { readonly state: 'listed'; readonly runs: readonly RunListing[] }

/** What was chosen in the list: it stays while runs and comparisons are read. */
export interface RunChoices {
  /** Names of runs. */
  readonly marked: readonly string[]
  readonly search: string
  readonly order: RunOrder
}

export const noChoices: RunChoices = {
  marked: [],
  search: '',
  order: { key: 'startedAt', descending: true },
}

/** All runs by rollout, the newest first; two marked runs can be compared, and several are plotted. */
export function RunsPage({
  source,
  go,
  choices,
  onChoices,
}: {
  source: Source
  go: Go
  choices: RunChoices
  onChoices: (choices: RunChoices) => void
}): JSX.Element {
  const listing = useListing(source)
  const { search, order } = choices
  const runs = listing.state === 'listed' ? listing.runs : []
  // A run whose folder was removed has no line any more, in which its mark could be taken away.
  const marked = choices.marked.filter((name) => runs.some((run) => run.name === name))
  const setMarked = (names: readonly string[]): void => onChoices({ ...choices, marked: names })
  const setSearch = (text: string): void => onChoices({ ...choices, search: text })
  const setOrder = (next: RunOrder): void => onChoices({ ...choices, order: next })
  const mark = (name: string, isOn: boolean): void => {
    setMarked(isOn ? [...marked, name] : marked.filter((other) => other !== name))
  }
  if (listing.state === 'failed') {
    return (
      <main class="empty">
        <b>The runs cannot be read</b>
        <p>{listing.problem}</p>
        <CommandToCopy text="osmosis eval view" />
      </main>
    )
  }
  const onMark = runs.length > 1 ? mark : undefined
  const groups = groupRuns(
    runs.filter((run) => matches(run, search)),
    order,
  )
  const plotted = marked.flatMap((name) =>
    runs.filter(isSummary).filter((run) => run.name === name),
  )
  const onSort = (key: RunKey): void => {
    const isNumber = key !== 'name' && key !== 'model'
    setOrder({ key, descending: order.key === key ? !order.descending : isNumber })
  }
  return (
    <main class="page runs">
      <TrainingList source={source} />
      <h1>Evaluations</h1>
      {listing.state === 'listed' && runs.length === 0 && (
        <>
          <p class="lead">No runs yet. Start one:</p>
          <CommandToCopy text="osmosis eval run configs/eval/my-agent.toml" />
        </>
      )}
      {runs.length > 1 && (
        <label class="search">
          <input
            type="search"
            value={search}
            placeholder="Name, model, dataset, state or tag"
            aria-label="Search runs"
            onInput={({ currentTarget }) => setSearch(currentTarget.value)}
          />
        </label>
      )}
      {runs.length > 0 && groups.length === 0 && (
        <p class="lead">
          No run has all these words.{' '}
          <button class="btn" onClick={() => setSearch('')}>
            Show all runs
          </button>
        </p>
      )}
      {runs.length > 1 && <CompareBar runs={runs} marked={marked} go={go} />}
      {groups.length > 0 && (
        <div class="sheet">
          <table class="grid">
            <Head order={order} onSort={onSort} hasMarks={onMark !== undefined} />
            {groups.map((group) => (
              <Group
                key={group.rollout}
                {...{ group, marked, onMark }}
                hasTitle={groups.length > 1 || group.trend.passRates.length > 1}
              />
            ))}
          </table>
        </div>
      )}
      {plotted.length > 1 && <RunPlot runs={plotted} />}
    </main>
  )
}

/** Columns besides that of the marks. */
const columns = 11

interface HeadProps {
  readonly order: RunOrder
  readonly onSort: (key: RunKey) => void
  readonly hasMarks: boolean
}

function Head({ order, onSort, hasMarks }: HeadProps): JSX.Element {
  const head = (key: RunKey, label: string, style = ''): JSX.Element => (
    <th class={style} aria-sort={sortOf(order, key)}>
      <button onClick={() => onSort(key)}>
        {label}
        {order.key === key && (order.descending ? ' ↓' : ' ↑')}
      </button>
      {key === 'passRate' && <span class="margin" />}
    </th>
  )
  return (
    <thead>
      <tr>
        {hasMarks && (
          <th>
            <span class="heading">Compare</span>
          </th>
        )}
        {head('name', 'Run')}
        {head('startedAt', 'Started', 'wide')}
        {head('model', 'Model', 'wide')}
        <th class="wider">Dataset</th>
        {head('reward', 'Reward', 'end')}
        {head('passRate', 'Pass rate', 'end')}
        <th class="end wider" title="Rows whose attempts differ in reward">
          Signal
        </th>
        <th class="end wider">Rows</th>
        <th class="end">State</th>
        {head('durationMs', 'Time', 'end wide')}
        {head('costUsd', 'Cost', 'end wider')}
      </tr>
    </thead>
  )
}

interface GroupProps {
  readonly group: RunGroup
  readonly hasTitle: boolean
  readonly marked: readonly string[]
  /** Undefined when there is only one run. */
  readonly onMark: ((name: string, isOn: boolean) => void) | undefined
}

/** The runs of a rollout, below a line with its name and the trend of its pass rate. */
function Group({ group, hasTitle, marked, onMark }: GroupProps): JSX.Element {
  const { rollout, runs, trend } = group
  const title = rollout === '' ? 'Not read' : rollout
  return (
    <tbody aria-label={title}>
      {hasTitle && (
        <tr class="group">
          <th scope="rowgroup" colSpan={columns + (onMark === undefined ? 0 : 1)}>
            <b>{title}</b>
            {trend.passRates.length > 1 && (
              <>
                <span class="dim">
                  pass rate on {trend.dataset.split('/').at(-1)}, the oldest first
                </span>
                <Trend values={trend.passRates} text={(value) => percent(value)} />
              </>
            )}
          </th>
        </tr>
      )}
      {runs.map((run) => (
        <RunLine key={run.name} run={run} isMarked={marked.includes(run.name)} onMark={onMark} />
      ))}
    </tbody>
  )
}

function sortOf({ key, descending }: RunOrder, own: RunKey) {
  if (key !== own) return undefined
  return descending ? 'descending' : 'ascending'
}

/** What to do to compare two runs, and the button for it. */
function CompareBar({
  runs,
  marked,
  go,
}: {
  runs: readonly RunListing[]
  marked: readonly string[]
  go: Go
}): JSX.Element {
  const [older, newer] = inTime(runs, marked)
  return (
    <div class="compare-bar" role="status">
      {older !== undefined && newer !== undefined ? (
        <button
          class="btn primary"
          onClick={() => go({ page: 'compare', run: older, other: newer }, 'push')}
        >
          Compare {older} with {newer}
        </button>
      ) : marked.length > 2 ? (
        `${marked.length} runs are marked. Mark two of them to compare their rows.`
      ) : marked[0] === undefined ? (
        'Mark two runs to compare them, or more to plot their pass rates.'
      ) : (
        `Mark another run to compare it with ${marked[0]}.`
      )}
    </div>
  )
}

function useListing(source: Source): Listing {
  const [listing, setListing] = useState<Listing>({ state: 'loading' })
  useEffect(() => {
    let isCancelled = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const read = async (): Promise<void> => {
      let pauseMs = refreshMs
      try {
        const runs = await source.runs()
        if (runs.some((run) => 'isReading' in run)) pauseMs = readingMs
        if (!isCancelled) setListing({ state: 'listed', runs })
      } catch (error) {
        const problem = error instanceof Error ? error.message : String(error)
        if (!isCancelled) setListing({ state: 'failed', problem })
      }
      if (!isCancelled && source.kind === 'server') timer = setTimeout(() => void read(), pauseMs)
    }
    void read()
    return () => {
      isCancelled = true
      clearTimeout(timer)
    }
  }, [source])
  return listing
}

/** Two names, the older run first. */
function inTime(runs: readonly RunListing[], names: readonly string[]): readonly string[] {
  if (names.length !== 2) return []
  const startOf = (name: string): string => {
    const run = runs.find((each) => each.name === name)
    return run !== undefined && isSummary(run) ? run.startedAt : ''
  }
  return names.toSorted((a, b) => compare(startOf(a), startOf(b)) || compare(a, b))
}

/** A command of the terminal that can be copied. */
function CommandToCopy({ text }: { text: string }): JSX.Element {
  const command = `npx ${text}`
  return (
    <p class="command">
      <code>{command}</code> <CopyButton text={command} />
    </p>
  )
}

const ticks = [0, 0.25, 0.5, 0.75, 1]

/** The pass rates of runs with their 95 % intervals, one above the other on one axis. */
function RunPlot({ runs }: { runs: readonly RunSummary[] }): JSX.Element {
  return (
    <section class="card run-plot" aria-label="Pass rates of the marked runs">
      <h2>Pass rate of the marked runs, with 95 % intervals</h2>
      {runs.map((run) => (
        <PlotLine key={run.name} run={run} />
      ))}
      <div class="plot-line" aria-hidden="true">
        <span />
        <span class="axis">
          {ticks.map((tick) => (
            <span key={tick} style={{ left: `${100 * tick}%` }}>
              {percent(tick, 0)}
            </span>
          ))}
        </span>
        <span />
      </div>
    </section>
  )
}

/** The place of a share on the axis. */
function at(share: number): string {
  return `${100 * Math.min(1, Math.max(0, share))}%`
}

function PlotLine({ run }: { run: RunSummary }): JSX.Element {
  const { name, model, passRate, passInterval } = run
  const [low, high] = passInterval ?? [passRate ?? 0, passRate ?? 0]
  return (
    <div class="plot-line">
      <a href={hrefOf({ page: 'run', run: name })} title={model}>
        {name}
      </a>
      <span class="range">
        {passRate !== null && (
          <>
            <i style={{ left: at(low), right: `calc(100% - ${at(high)})` }} />
            <b style={{ left: at(passRate) }} />
          </>
        )}
      </span>
      <span class="value">
        {percent(passRate)}{' '}
        <span class="dim">
          {passRate !== null && passInterval !== null && margin(passRate, passInterval, points)}
        </span>
      </span>
    </div>
  )
}
