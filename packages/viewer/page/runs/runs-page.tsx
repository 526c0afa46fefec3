import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

import type { RunListing, RunSummary } from '../../src/wire.ts'
import { margin, percent, points, thousands, unknown } from '../format.ts'
import { comparisonHref, type Go, hrefOf } from '../route.ts'
import type { Source } from '../source/source.ts'
import { TrainingList } from './training-list.tsx'

/** Interval of reading the list again: normally, and while runs are still being read. Milliseconds. */
const refreshMs = 3000
const readingMs = 400

type Listing =
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }
  | { readonly state: 'listed'; readonly runs: readonly RunListing[] }

/** All runs, the newest first; two marked runs can be compared. */
export function RunsPage({ source, go }: { source: Source; go: Go }): JSX.Element {
  const listing = useListing(source)
  const [marked, setMarked] = useState<readonly string[]>([])
  const mark = (name: string, isOn: boolean): void => {
    setMarked(isOn ? [...marked, name].slice(-2) : marked.filter((other) => other !== name))
  }
  if (listing.state === 'failed') {
    return (
      <main class="empty">
        <b>The runs cannot be read</b>
        {listing.problem}
      </main>
    )
  }
  const runs = listing.state === 'listed' ? listing.runs : []
  const [older, newer] = inTime(runs, marked)
  const isComparable = runs.length > 1
  return (
    <main class="page">
      <TrainingList source={source} />
      <h1>Evaluations</h1>
      {listing.state === 'listed' && runs.length === 0 ? (
        <p class="lead">
          No runs yet. Start one with <code class="mono">osmosis eval run</code>.
        </p>
      ) : (
        isComparable && (
          <p class="lead">
            {older === undefined || newer === undefined ? (
              'Mark two to compare them.'
            ) : (
              <button
                class="btn"
                onClick={() => go({ page: 'compare', run: older, other: newer }, 'push')}
              >
                Compare {older} with {newer}
              </button>
            )}
          </p>
        )
      )}
      {runs.length > 0 && (
        <div class="sheet">
          <table class="grid">
            <thead>
              <tr>
                {isComparable && (
                  <th>
                    <span class="unseen">Mark</span>
                  </th>
                )}
                <th>Run</th>
                <th class="wide">Model</th>
                <th class="wide">Dataset</th>
                <th class="end">Reward</th>
                <th class="end">
                  Pass rate
                  <span class="margin" />
                </th>
                <th class="end wide">Training signal</th>
                <th class="end">Rollouts</th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) =>
                'isReading' in run ? (
                  <tr key={run.name} aria-busy="true">
                    {isComparable && <td />}
                    <td class="name">
                      <a href={hrefOf({ page: 'run', run: run.name })}>{run.name}</a>
                    </td>
                    <td colSpan={6} class="dim">
                      reading…
                    </td>
                  </tr>
                ) : 'problem' in run ? (
                  <tr key={run.name}>
                    {isComparable && <td />}
                    <td class="name">{run.name}</td>
                    <td colSpan={6} class="dim">
                      {run.problem}
                    </td>
                  </tr>
                ) : (
                  <RunLine
                    key={run.name}
                    run={run}
                    isMarked={marked.includes(run.name)}
                    onMark={isComparable ? mark : undefined}
                  />
                ),
              )}
            </tbody>
          </table>
        </div>
      )}
    </main>
  )
}

function RunLine({
  run,
  isMarked,
  onMark,
}: {
  run: RunSummary
  isMarked: boolean
  /** Undefined when there is only one run. */
  onMark: ((name: string, isOn: boolean) => void) | undefined
}): JSX.Element {
  return (
    <tr class={isMarked ? 'here' : ''}>
      {onMark !== undefined && (
        <td>
          <input
            type="checkbox"
            aria-label={`Mark ${run.name}`}
            checked={isMarked}
            onChange={({ currentTarget }) => onMark(run.name, currentTarget.checked)}
          />
        </td>
      )}
      <td class="name">
        <a href={hrefOf({ page: 'run', run: run.name })}>{run.name}</a>
        {run.variants.length > 0 && (
          <div class="variants">
            {run.variants.map((variant) => (
              <a key={variant} class="dim" href={comparisonHref(run.name, variant)}>
                compare {variant.slice(run.name.length)}
              </a>
            ))}
          </div>
        )}
      </td>
      <td class="wide mono">{run.model}</td>
      <td class="wide" title={run.dataset}>
        {run.dataset.split('/').at(-1)}
      </td>
      <td class="end">{run.reward?.toFixed(3) ?? unknown}</td>
      <td class="end">
        {percent(run.passRate)}
        <span class="margin">
          {run.passRate !== null &&
            run.passInterval !== null &&
            ` ${margin(run.passRate, run.passInterval, points)}`}
        </span>
      </td>
      <td class="end wide">{percent(run.signal, 0)}</td>
      <td class="end">
        {run.state === 'finished' ? (
          thousands(run.ended)
        ) : (
          <span class={`state ${run.state}`} title={run.reason ?? ''}>
            {thousands(run.ended)} of {thousands(run.total)}
          </span>
        )}
      </td>
    </tr>
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
  if (names.length < 2) return []
  const startOf = (name: string): string => {
    const run = runs.find((each) => each.name === name)
    return run !== undefined && 'startedAt' in run ? run.startedAt : ''
  }
  return names.toSorted((a, b) => (startOf(a) < startOf(b) ? -1 : 1))
}
