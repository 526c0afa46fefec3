import { quantities, type Quantity } from './behaviour-figures.ts'
import { pairedDifference, type PairedDifference } from './paired-difference.ts'
import type { RowGroup } from './row-group.ts'
import type { RunTable } from './run-table.ts'
import type { Sign } from './signs.ts'

/** How rollouts behaved before and after, as means over the rows that both runs have. */
export interface BehaviourChange {
  /** A quantity such as `calls`, or a sign. */
  readonly key: string
  /** E.g. `Model calls per rollout`. */
  readonly title: string
  /** `share`: a part of all rollouts, from 0 to 1. */
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
  shareMeasure('unearned', 'Passes that look unearned'),
  shareMeasure('rewritten', 'History rewritten'),
  shareMeasure('failed', 'Failed'),
]

/** The changes of what both runs know, whatever became of it. */
export function behaviourChanges(
  a: RunTable,
  b: RunTable,
  pairs: readonly (readonly [RowGroup, RowGroup])[],
): BehaviourChange[] {
  return measures.flatMap(({ of, ...measure }) => {
    const [readA, readB] = [of(a), of(b)]
    const rows = pairs.flatMap(([left, right]) => {
      const before = rowMean(a, left, readA)
      const after = rowMean(b, right, readB)
      return before === null || after === null ? [] : [{ before, after }]
    })
    if (rows.length === 0) return []
    return [
      {
        ...measure,
        before: rows.reduce((sum, { before }) => sum + before, 0) / rows.length,
        after: rows.reduce((sum, { after }) => sum + after, 0) / rows.length,
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

function shareMeasure(sign: Sign, title: string): Measure {
  return {
    key: sign,
    title,
    unit: 'share',
    of: (table) => (item) => (table.has(item, sign) ? 1 : 0),
  }
}

function rowMean(table: RunTable, { items }: RowGroup, read: Quantity): number | null {
  const known = items.flatMap((item) => (table.counts(item) ? (read(item) ?? []) : []))
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length
}
