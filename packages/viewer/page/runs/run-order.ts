import type { RunListing, RunSummary } from '../../src/wire.ts'

/** The columns by which the list is sorted. */
export type RunKey =
  | 'startedAt'
  | 'name'
  | 'model'
  | 'reward'
  | 'passRate'
  | 'durationMs'
  | 'costUsd'

export interface RunOrder {
  readonly key: RunKey
  readonly descending: boolean
}

/** The runs of one rollout. */
export interface RunGroup {
  /** Empty for runs that cannot be read. */
  readonly rollout: string
  readonly runs: readonly RunListing[]
  /** The dataset of its newest run, and the pass rates of its runs on that, the oldest first. */
  readonly trend: { readonly dataset: string; readonly passRates: readonly number[] }
}

/** Whether the words of a search are in what the list shows of a run. */
export function matches(run: RunListing, search: string): boolean {
  const text = isSummary(run)
    ? [run.name, run.model, run.rollout, run.dataset, run.state, ...run.tags].join(' ')
    : run.name
  const words = search.toLowerCase().split(/\s+/)
  return words.every((word) => text.toLowerCase().includes(word))
}

/** The runs by rollout, in the order of the listing, in which the newest runs of a folder come first. */
export function groupRuns(runs: readonly RunListing[], order: RunOrder): RunGroup[] {
  const byRollout = Map.groupBy(runs, (run) => (isSummary(run) ? run.rollout : ''))
  return [...byRollout].map(([rollout, own]) => {
    const inTime = own.filter(isSummary).toSorted((a, b) => compare(a.startedAt, b.startedAt))
    const dataset = inTime.at(-1)?.dataset ?? ''
    const passRates = inTime
      .filter((run) => run.dataset === dataset)
      .flatMap(({ passRate }) => passRate ?? [])
    return { rollout, runs: sorted(own, order), trend: { dataset, passRates } }
  })
}

export function isSummary(run: RunListing): run is RunSummary {
  return 'startedAt' in run
}

/** Runs without the value come last. */
function sorted(runs: readonly RunListing[], { key, descending }: RunOrder): RunListing[] {
  const valueOf = (run: RunListing): string | number | null =>
    key === 'name' ? run.name : isSummary(run) ? run[key] : null
  return runs.toSorted((a, b) => {
    const [left, right] = [valueOf(a), valueOf(b)]
    if (left === null || right === null) return Number(left === null) - Number(right === null)
    // Runs that started together stand in the order of their names, whatever the order in which they were read.
    const order = descending ? compare(right, left) : compare(left, right)
    return order || compare(a.name, b.name)
  })
}

export function compare(a: string | number, b: string | number): number {
  return a < b ? -1 : Number(a > b)
}
