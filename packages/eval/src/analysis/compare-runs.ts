import { behaviourChanges, type BehaviourChange } from './behaviour-changes.ts'
import { type Estimate, ratioEstimate } from './estimate.ts'
import {
  pairedDifference,
  type PairedDifference,
  type Verdict,
  verdictOf,
} from './paired-difference.ts'
import type { RowGroup } from './row-group.ts'
import type { RunTable } from './run-table.ts'

/** Settings of {@link compareRuns}. */
export interface CompareOptions {
  /** Default: `pass`. `reward` compares the values, also where those are scores. */
  readonly metric?: 'pass' | 'reward'
  /** A facet by whose values the rows are compared as well. Default: none. */
  readonly by?: string
}

/** What became better or worse from run A to run B. */
export interface Comparison {
  readonly metric: 'pass' | 'reward'
  readonly verdict: Verdict
  readonly difference: PairedDifference
  /** Of A, over the rows that both have. */
  readonly before: Estimate
  /** Of B, over the rows that both have. */
  readonly after: Estimate
  /** Rows that only A has. */
  readonly onlyA: number
  /** Rows that only B has. */
  readonly onlyB: number
  /** Rows that always passed and no longer do. */
  readonly lostSure: number
  /** The most improved first. */
  readonly facets: readonly FacetChange[]
  readonly behaviour: readonly BehaviourChange[]
  /** The largest losses first. */
  readonly rows: readonly RowChange[]
}

/** A row that both runs have. */
export interface RowChange {
  readonly key: string
  readonly a: RowGroup
  readonly b: RowGroup
  /** Of A: the share of attempts that pass, or the mean reward; see `metric`. */
  readonly before: number
  /** Of B. */
  readonly after: number
  /** `after` − `before`. */
  readonly change: number
}

/** The rows with one value of a facet. */
export interface FacetChange {
  readonly value: string
  readonly difference: PairedDifference
  readonly verdict: Verdict
}

/**
 * Compares two runs over the rows that both have, by their key: the same rows differ far less than two
 * intervals suggest. Rows of a run with equal keys are matched in their order.
 */
export function compareRuns(a: RunTable, b: RunTable, options: CompareOptions = {}): Comparison {
  const { metric = 'pass', by } = options
  const scale = metric === 'pass' ? 'points' : 'plain'
  const { pairs, onlyA, onlyB } = pairRows(a, b)
  const rows = pairs.flatMap(([left, right]): RowChange[] => {
    const [before, after] = [rowMean(left, metric), rowMean(right, metric)]
    if (before === null || after === null) return []
    return [{ key: right.key, a: left, b: right, before, after, change: after - before }]
  })
  const difference = pairedDifference(rows.map(({ change }) => change))
  return {
    metric,
    verdict: verdictOf(difference, scale),
    difference,
    before: overall(
      rows.map((row) => row.a),
      metric,
    ),
    after: overall(
      rows.map((row) => row.b),
      metric,
    ),
    onlyA,
    onlyB,
    lostSure: rows.filter((row) => isSure(row.a) && !isSure(row.b)).length,
    facets: by === undefined ? [] : facetChanges(rows, b, by, scale),
    behaviour: behaviourChanges(a, b, pairs),
    rows: rows.toSorted((one, other) => one.change - other.change || one.b.row - other.b.row),
  }
}

function pairRows(
  a: RunTable,
  b: RunTable,
): { pairs: [RowGroup, RowGroup][]; onlyA: number; onlyB: number } {
  const [ofA, ofB] = [endedGroups(a), endedGroups(b)]
  const left = Map.groupBy(ofA, ({ key }) => key)
  const right = Map.groupBy(ofB, ({ key }) => key)
  const pairs: [RowGroup, RowGroup][] = []
  for (const [key, groups] of right) {
    for (const [place, group] of groups.entries()) {
      const other = left.get(key)?.[place]
      if (other !== undefined) pairs.push([other, group])
    }
  }
  return {
    pairs,
    onlyA: ofA.length - pairs.length,
    onlyB: ofB.length - pairs.length,
  }
}

function endedGroups({ groups }: RunTable): RowGroup[] {
  return groups.filter(({ ended }) => ended > 0)
}

function rowMean({ passed, ended, mean }: RowGroup, metric: 'pass' | 'reward'): number | null {
  return metric === 'pass' ? passed / ended : mean
}

function overall(groups: readonly RowGroup[], metric: 'pass' | 'reward'): Estimate {
  if (metric === 'pass') {
    return ratioEstimate(
      groups.map(({ passed, ended }) => ({ sum: passed, weight: ended })),
      true,
    )
  }
  return ratioEstimate(
    groups.map(({ mean, graded }) => ({ sum: (mean ?? 0) * graded, weight: graded })),
  )
}

function isSure({ passed, ended }: RowGroup): boolean {
  return passed === ended
}

function facetChanges(
  rows: readonly RowChange[],
  table: RunTable,
  by: string,
  scale: 'points' | 'plain',
): FacetChange[] {
  const named = rows.flatMap((row) => {
    const value = table.facets(row.b)[by]
    return value === undefined ? [] : [{ value, change: row.change }]
  })
  return [...Map.groupBy(named, ({ value }) => value)]
    .map(([value, group]) => {
      const difference = pairedDifference(group.map(({ change }) => change))
      return { value, difference, verdict: verdictOf(difference, scale) }
    })
    .toSorted((a, b) => (b.difference.value ?? 0) - (a.difference.value ?? 0))
}
