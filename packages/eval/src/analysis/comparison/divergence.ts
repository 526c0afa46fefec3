import type { RunTable } from '../table/run-table.ts'
import { answeredCalls } from '../trajectory/trajectory-facts.ts'
import type { StepLike, TrajectoryLike } from '../trajectory/trajectory-shape.ts'

/** The first difference between two attempts at a row. Steps are counted from 0. */
export interface Divergence {
  /** The first step in which they differ; null when all steps are equal. */
  readonly at: number | null
  /** What differs in that step; `end` when one attempt has no such step. Null when nothing differs. */
  readonly by: 'source' | 'text' | 'tool' | 'arguments' | 'end' | null
  /**
   * The first earlier step in which an equal call got another result: the environment is not
   * deterministic, which adds noise to the reward.
   */
  readonly environment: { readonly at: number; readonly tool: string } | null
}

/**
 * Compares two attempts step by step. Steps are equal when their text, tools and arguments are; ids,
 * times, counts and reasoning do not matter.
 */
export function divergenceOf(a: TrajectoryLike, b: TrajectoryLike): Divergence {
  let environment: Divergence['environment'] = null
  for (let at = 0; ; at++) {
    const [left, right] = [a.steps[at], b.steps[at]]
    if (left === undefined && right === undefined) return { at: null, by: null, environment }
    if (left === undefined || right === undefined) return { at, by: 'end', environment }
    const by = differenceOf(left, right)
    if (by !== null) return { at, by, environment }
    if (environment === null && !isSame(resultsOf(left), resultsOf(right))) {
      environment = { at, tool: otherResult(left, right) }
    }
  }
}

function differenceOf(a: StepLike, b: StepLike): 'source' | 'text' | 'tool' | 'arguments' | null {
  if (a.source !== b.source) return 'source'
  if (!isSame(a.message, b.message)) return 'text'
  const [left, right] = [a.tool_calls ?? [], b.tool_calls ?? []]
  const names = (calls: typeof left): string[] => calls.map(({ function_name: name }) => name)
  if (!isSame(names(left), names(right))) return 'tool'
  return left.every((call, at) => isSame(call.arguments, right[at]?.arguments)) ? null : 'arguments'
}

function resultsOf({ observation }: StepLike): unknown[] {
  return observation?.results.map(({ content }) => content ?? null) ?? []
}

/** The tool of the first result that differs. */
function otherResult(a: StepLike, b: StepLike): string {
  const [left, right] = [a.observation?.results ?? [], b.observation?.results ?? []]
  const place = left.findIndex(
    ({ content }, at) => !isSame(content ?? null, right[at]?.content ?? null),
  )
  const other = left[place === -1 ? 0 : place]
  const calls = answeredCalls(a)
  return (calls.find(({ result }) => result === other) ?? calls[0])?.call.function_name ?? ''
}

/** Equal as JSON data, regardless of the order of keys. */
function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))]
  return (
    left.length === right.size &&
    left.every(([key, value]) => right.has(key) && isSame(value, right.get(key)))
  )
}

/**
 * The best attempt at the same row to compare with: one that passed if this one did not, or the reverse, and
 * the most different in value. Null when no other attempt has a value.
 */
export function counterpartOf(table: RunTable, item: number): number | null {
  const others = table
    .group(item)
    .items.filter((other) => other !== item && table.value(other) !== null)
  const wanted = others.filter((other) => table.passed(other) !== table.passed(item))
  const distance = (other: number): number =>
    Math.abs((table.value(other) ?? 0) - (table.value(item) ?? 0))
  const [best] = (wanted.length > 0 ? wanted : others).toSorted((a, b) => distance(b) - distance(a))
  return best ?? null
}
