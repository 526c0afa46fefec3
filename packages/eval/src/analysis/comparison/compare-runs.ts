import { quantities, type Quantity } from '../figures/behaviour-figures.ts'
import { meanValue, passRate } from '../figures/reward-figures.ts'
import { type Estimate, average } from '../statistics/estimate.ts'
import {
  pairedDifference,
  type PairedDifference,
  type Verdict,
  verdictOf,
} from '../statistics/paired-difference.ts'
import type { ItemFlag } from '../table/item-flags.ts'
import type { RunDocument } from '../table/run-document.ts'
import type { RowGroup, RunTable } from '../table/run-table.ts'

/** Settings of {@link compareRuns}. */
export interface CompareOptions {
  /** Default: `pass`. `reward` compares the values, also where those are scores. */
  readonly metric?: 'pass' | 'reward'
  /** A facet; the rows of each of its values are compared too. Default: none. */
  readonly by?: string
}

/** The change from run A to run B. */
export interface Comparison {
  readonly metric: 'pass' | 'reward'
  readonly verdict: Verdict
  readonly difference: PairedDifference
  /** Of A, over the shared rows. */
  readonly before: Estimate
  /** Of B, over the shared rows. */
  readonly after: Estimate
  /** Rows that only A has. */
  readonly onlyA: number
  /** Rows that only B has. */
  readonly onlyB: number
  /** Rows that always passed in A but not in B. */
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
 * Compares two runs over the rows that both have, matched by key: a paired difference is far more precise
 * than two intervals. Rows of a run with equal keys are matched in order.
 */
export function compareRuns(a: RunTable, b: RunTable, options: CompareOptions = {}): Comparison {
  const { metric = 'pass', by } = options
  const scale = metric === 'pass' ? 'points' : 'plain'
  const overall = metric === 'pass' ? passRate : meanValue
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
    before: overall(rows.map(({ a: before }) => before)),
    after: overall(rows.map(({ b: after }) => after)),
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

/** A change of behaviour, as means over the rows that both runs have. */
export interface BehaviourChange {
  /** A quantity such as `calls`, or a flag. */
  readonly key: string
  /** E.g. `Model calls per rollout`. */
  readonly title: string
  /** `share`: from 0 to 1. */
  readonly unit: 'count' | 'seconds' | 'usd' | 'share'
  readonly before: number
  readonly after: number
  readonly difference: PairedDifference
}

interface Measure {
  readonly key: string
  readonly title: string
  readonly unit: BehaviourChange['unit']
  readonly of: (table: RunTable) => Quantity
}

const measures: readonly Measure[] = [
  ...quantityMeasures(),
  shareMeasure('toolerror', 'Rollouts with a tool error'),
  shareMeasure('stuck', 'Rollouts that are stuck'),
  shareMeasure('cut', 'Cut off'),
  shareMeasure('suspicious', 'Suspicious passes'),
  shareMeasure('rewritten', 'History rewritten'),
  shareMeasure('failed', 'Failed'),
]

/** The changes of all measures that both runs have. */
function behaviourChanges(
  a: RunTable,
  b: RunTable,
  pairs: readonly (readonly [RowGroup, RowGroup])[],
): BehaviourChange[] {
  return measures.flatMap(({ of, ...measure }) => {
    const [readA, readB] = [of(a), of(b)]
    const rows = pairs.flatMap(([left, right]) => {
      const before = quantityMean(a, left, readA)
      const after = quantityMean(b, right, readB)
      return before === null || after === null ? [] : [{ before, after }]
    })
    if (rows.length === 0) return []
    return [
      {
        ...measure,
        before: average(rows.map(({ before }) => before)),
        after: average(rows.map(({ after }) => after)),
        difference: pairedDifference(rows.map(({ before, after }) => after - before)),
      },
    ]
  })
}

function quantityMeasures(): Measure[] {
  return (
    [
      ['calls', 'Model calls per rollout', 'count'],
      ['tool_calls', 'Tool calls per rollout', 'count'],
      ['completion_tokens', 'Tokens written per rollout', 'count'],
      ['seconds', 'Seconds per rollout', 'seconds'],
      ['cost_usd', 'Cost per rollout', 'usd'],
    ] as const
  ).map(([key, title, unit]) => ({ key, title, unit, of: (table) => quantities(table)[key] }))
}

function shareMeasure(flag: ItemFlag, title: string): Measure {
  return {
    key: flag,
    title,
    unit: 'share',
    of: (table) => (item) => (table.has(item, flag) ? 1 : 0),
  }
}

function quantityMean(table: RunTable, { items }: RowGroup, read: Quantity): number | null {
  const known = items.flatMap((item) => (table.counts(item) ? (read(item) ?? []) : []))
  return known.length === 0 ? null : average(known)
}

/** An input in which two runs differ, as text; null where a run does not have it. */
export interface InputChange {
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

/** What two runs were made with, where it differs: dataset, code, fields of the config, limits and versions. */
export function inputChanges(before: RunDocument, after: RunDocument): InputChange[] {
  const names = new Set([...Object.keys(before.inputs), ...Object.keys(after.inputs)])
  return [...names].flatMap((name) => {
    const [one = null, other = null] = [before.inputs[name], after.inputs[name]]
    return one === other ? [] : [{ name, before: one, after: other }]
  })
}
