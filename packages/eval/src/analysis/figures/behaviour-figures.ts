import { type Estimate, ratioEstimate, quantile, average } from '../statistics/estimate.ts'
import type { ItemFlag } from '../table/item-flags.ts'
import type { RunTable } from '../table/run-table.ts'

/** The distribution of a quantity over the items that have it. */
export interface Distribution {
  readonly mean: Estimate
  /** The median; null where no item has the quantity. */
  readonly p50: number | null
  /** The 95th percentile. */
  readonly p95: number | null
  /** The mean over passes. */
  readonly passed: number | null
  /** The mean over all others. */
  readonly others: number | null
}

/** The share of items with a flag. */
export interface FlagShare extends Estimate {
  /** Items with the flag. */
  readonly items: number
  /** The mean value of these items. */
  readonly mean_value: number | null
}

/** Use of a tool. */
export interface ToolFigures {
  readonly name: string
  /** Rollouts that called it. */
  readonly rollouts: number
  readonly calls: number
  /** Calls that failed; see `isToolError`. */
  readonly errors: number
  /** The share of those rollouts that passed. */
  readonly pass_rate: number
}

/** Rollouts that ended, and how many of them passed, for one value of a facet. */
export interface GroupFigures {
  readonly name: string
  readonly ended: number
  readonly passed: number
}

/** A quantity of items; null for an item where it is unknown. */
export type Quantity = (item: number) => number | null | undefined

/** The quantities by which rollouts are described. */
export function quantities({
  document: { columns },
}: RunTable): Record<
  'calls' | 'tool_calls' | 'completion_tokens' | 'prompt_tokens' | 'seconds' | 'cost_usd',
  Quantity
> {
  return {
    calls: (item) => columns.calls[item],
    tool_calls: (item) => columns.toolCalls[item],
    completion_tokens: (item) => columns.completionTokens[item],
    prompt_tokens: (item) => columns.promptTokens[item],
    seconds: (item) => (columns.durationMs[item] ?? 0) / 1000,
    cost_usd: (item) => columns.costUsd[item],
  }
}

export function distribution(table: RunTable, quantity: Quantity): Distribution {
  const known: number[] = []
  let passedSum = 0
  let passedCount = 0
  let total = 0
  const shares = table.groups.map(({ items }) => {
    let sum = 0
    let weight = 0
    for (const item of items) {
      const value = table.counts(item) ? quantity(item) : null
      if (value === null || value === undefined) continue
      known.push(value)
      sum += value
      weight += 1
      if (!table.passed(item)) continue
      passedSum += value
      passedCount += 1
    }
    total += sum
    return { sum, weight }
  })
  const sorted = new Float64Array(known).toSorted()
  const otherCount = known.length - passedCount
  return {
    mean: ratioEstimate(shares),
    p50: quantile(sorted, 0.5),
    p95: quantile(sorted, 0.95),
    passed: passedCount === 0 ? null : passedSum / passedCount,
    others: otherCount === 0 ? null : (total - passedSum) / otherCount,
  }
}

/** Σ above / Σ below over the items, clustered by row, e.g. tool errors by tool calls. */
export function ratio(table: RunTable, above: Quantity, below: Quantity, isRate = false): Estimate {
  const shares = table.groups.map(({ items }) => {
    const share = { sum: 0, weight: 0 }
    for (const item of items) {
      if (!table.counts(item)) continue
      const sum = above(item)
      const weight = below(item)
      if (typeof sum !== 'number' || typeof weight !== 'number') continue
      share.sum += sum
      share.weight += weight
    }
    return share
  })
  return ratioEstimate(shares, isRate)
}

export function flagShare(table: RunTable, flag: ItemFlag): FlagShare {
  const has: Quantity = (item) => (table.has(item, flag) ? 1 : 0)
  const items = table.counted.filter((item) => table.has(item, flag))
  const values = items.flatMap((item) => table.value(item) ?? [])
  return {
    ...ratio(table, has, () => 1, true),
    items: items.length,
    mean_value: values.length === 0 ? null : average(values),
  }
}

/** The rollouts of a run by the values of a facet, in the order in which the values first occur. */
export function facetFigures({ document, groups }: RunTable, name: string): GroupFigures[] {
  const { values = [], of = [] } = document.rows.facets[name] ?? {}
  const figures = values.map((value) => ({ name: value, ended: 0, passed: 0 }))
  for (const group of groups) {
    const figure = figures[of[group.place] ?? -1]
    if (figure === undefined) continue
    figure.ended += group.ended
    figure.passed += group.passed
  }
  return figures
}

/** The tools of a run, the most called first. */
export function toolFigures(table: RunTable): ToolFigures[] {
  const { toolNames, toolUses, columns } = table.document
  const tools = toolNames.map((name) => ({ name, rollouts: 0, calls: 0, errors: 0, passed: 0 }))
  for (const item of table.counted) {
    const use = toolUses[columns.toolUse[item] ?? -1] ?? []
    for (let at = 0; at < use.length; at += 3) {
      const tool = tools[use[at] ?? -1]
      if (tool === undefined) continue
      tool.rollouts += 1
      tool.calls += use[at + 1] ?? 0
      tool.errors += use[at + 2] ?? 0
      if (table.passed(item)) tool.passed += 1
    }
  }
  return tools
    .filter(({ rollouts }) => rollouts > 0)
    .map(({ passed, ...tool }) => ({ ...tool, pass_rate: passed / tool.rollouts }))
    .toSorted((a, b) => b.calls - a.calls)
}

/**
 * Whether longer rollouts are better within a row: Pearson's correlation of completion tokens and value,
 * both minus the mean of their row, over rows with a training signal. Null when nothing varies.
 */
export function lengthCorrelation(table: RunTable): { value: number | null; rows: number } {
  const { completionTokens } = table.document.columns
  let [products, tokenSquares, valueSquares, rows] = [0, 0, 0, 0]
  for (const { kind, items } of table.groups) {
    if (kind !== 'signal') continue
    const pairs = items.flatMap((item) => {
      const [tokens, value] = [completionTokens[item] ?? null, table.value(item)]
      return tokens === null || value === null || !table.counts(item) ? [] : [{ tokens, value }]
    })
    if (pairs.length < 2) continue
    rows += 1
    const tokenMean = average(pairs.map(({ tokens }) => tokens))
    const valueMean = average(pairs.map(({ value }) => value))
    for (const { tokens, value } of pairs) {
      products += (tokens - tokenMean) * (value - valueMean)
      tokenSquares += (tokens - tokenMean) ** 2
      valueSquares += (value - valueMean) ** 2
    }
  }
  const scale = Math.sqrt(tokenSquares * valueSquares)
  return { value: scale === 0 ? null : products / scale, rows }
}
