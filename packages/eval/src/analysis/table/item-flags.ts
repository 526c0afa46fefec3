import { quantile } from '../statistics/estimate.ts'
import { endingCodes, statusCodes } from './document-writer.ts'
import type { RunDocument } from './run-document.ts'

/**
 * What is unusual about an item, the worst first:
 *
 * - `suspicious`: it is a pass that may be reward hacking.
 * - `failed`: its rollout failed.
 * - `stuck`: one tool failed three times or more.
 * - `nocalls`: it succeeded without calling the policy.
 * - `cut`: a call reached the token limit.
 * - `rewritten`: a call did not extend the conversation before it, other than by another agent's instructions.
 * - `limited`: a limit ended it.
 * - `modelerror`: its framework gave up on the policy.
 * - `notext`: its last answer has no text, and `run()` returned no output.
 * - `toolerror`: a tool failed.
 * - `long`: it has more completion tokens than 99 % of the items and twice the median.
 * - `skipped`: the grader removed its samples.
 */
export const itemFlags = [
  'suspicious',
  'failed',
  'stuck',
  'nocalls',
  'cut',
  'rewritten',
  'limited',
  'modelerror',
  'notext',
  'toolerror',
  'long',
  'skipped',
] as const
/** One of {@link itemFlags}. */
export type ItemFlag = (typeof itemFlags)[number]

/** An item with this many errors of one tool is stuck. */
const stuckErrors = 3

/**
 * The tools that failed so often that the item is stuck, as places in `toolNames`.
 *
 * @param use - an entry of `RunDocument.toolUses`
 */
export function stuckTools(use: readonly number[]): number[] {
  const tools: number[] = []
  for (let at = 0; at < use.length; at += 3) {
    if ((use[at + 2] ?? 0) >= stuckErrors) tools.push(use[at] ?? -1)
  }
  return tools
}

export const flagBits = Object.fromEntries(
  itemFlags.map((flag, at) => [flag, 1 << at]),
) as Readonly<Record<ItemFlag, number>>

/** The flags of all items. */
export interface FlaggedItems {
  /** Per item, as {@link flagBits}. */
  readonly bits: Uint16Array
  /** Per item, the {@link suspicionReasons} as bits. */
  readonly suspicions: Uint8Array
}

export function findFlags(document: RunDocument, passed: Uint8Array): FlaggedItems {
  const { columns } = document
  const suspicions = findSuspicious(document, passed)
  const stuck = document.toolUses.map((use) => stuckTools(use).length > 0)
  const tokens = new Float64Array(columns.completionTokens.map((count) => count ?? 0)).toSorted()
  const long = Math.max(quantile(tokens, 0.99) ?? 0, 2 * (quantile(tokens, 0.5) ?? 0))
  const bits = new Uint16Array(passed.length)
  for (let item = 0; item < bits.length; item++) {
    const status = columns.status[item]
    const ending = columns.ending[item]
    let found = 0
    if (suspicions[item] !== 0) found |= flagBits.suspicious
    if (status === statusCodes.failed) found |= flagBits.failed
    if (status === statusCodes.skipped) found |= flagBits.skipped
    if (status === statusCodes.success && columns.calls[item] === 0) found |= flagBits.nocalls
    if (stuck[columns.toolUse[item] ?? -1]) found |= flagBits.stuck
    if (columns.cut[item] !== 0) found |= flagBits.cut
    if (columns.rewritten[item] !== 0) found |= flagBits.rewritten
    if (ending === endingCodes.limited) found |= flagBits.limited
    if (ending === endingCodes.modelerror) found |= flagBits.modelerror
    if (ending === endingCodes.notext) found |= flagBits.notext
    if (columns.toolErrors[item] !== 0) found |= flagBits.toolerror
    if ((columns.completionTokens[item] ?? 0) > long) found |= flagBits.long
    bits[item] = found
  }
  return { bits, suspicions }
}

/**
 * Why a pass is suspicious. `notools`: it called no tool, and more than 80 % of the passes do.
 * `short`: it has less than a quarter of the tokens of the median pass. `check`: it failed a check of the
 * grader, a metric of zeros and ones, that 95 % of the passes meet. `sametext`: its last text passes in five
 * rows or more. The first three need 20 passes. All are hints.
 */
export const suspicionReasons = ['notools', 'short', 'check', 'sametext'] as const
/** One of {@link suspicionReasons}. */
export type SuspicionReason = (typeof suspicionReasons)[number]

const suspicionBits = { notools: 1, short: 2, check: 4, sametext: 8 } as const

function findSuspicious(document: RunDocument, passed: Uint8Array): Uint8Array {
  const { columns } = document
  const found = new Uint8Array(passed.length)
  const passes: number[] = []
  for (let item = 0; item < passed.length; item++) if (passed[item] === 1) passes.push(item)
  const mark = (item: number, bit: number): void => {
    found[item] = (found[item] ?? 0) | bit
  }
  markSameTexts(columns, passes, (item) => mark(item, suspicionBits.sametext))
  if (passes.length < 20) return found

  const withTools = passes.filter((item) => columns.toolCalls[item] !== 0).length
  const usesTools = withTools / passes.length > 0.8
  const written = new Float64Array(
    passes.flatMap((item) => columns.completionTokens[item] ?? []),
  ).toSorted()
  const least = (quantile(written, 0.5) ?? 0) / 4
  const checks = checksOf(columns.metrics, passes)
  for (const item of passes) {
    if (usesTools && columns.toolCalls[item] === 0) mark(item, suspicionBits.notools)
    if ((columns.completionTokens[item] ?? least) < least) mark(item, suspicionBits.short)
    if (checks.some((values) => values[item] === 0)) mark(item, suspicionBits.check)
  }
  return found
}

/** Names of the reasons in a bit set. */
export function reasonsIn(found: number): SuspicionReason[] {
  return suspicionReasons.filter((reason) => (found & suspicionBits[reason]) !== 0)
}

/** Metrics of zeros and ones that are 1 in 95 % of the passes. */
function checksOf(
  metrics: RunDocument['columns']['metrics'],
  passes: readonly number[],
): (number | null)[][] {
  return Object.values(metrics).filter((values) => {
    if (
      values.some((value) => value !== null && value !== undefined && value !== 0 && value !== 1)
    ) {
      return false
    }
    const measured = passes.filter((item) => typeof values[item] === 'number')
    const met = measured.filter((item) => values[item] === 1)
    return measured.length >= 20 && met.length / measured.length >= 0.95
  })
}

/** Marks nothing where most passes share a text: in classification the same few answers are expected. */
function markSameTexts(
  { row, summary }: RunDocument['columns'],
  passes: readonly number[],
  mark: (item: number) => void,
): void {
  const rowsOf = new Map<string, number | Set<number>>()
  for (const item of passes) {
    const text = summary[item] ?? ''
    const at = row[item] ?? -1
    const rows = rowsOf.get(text)
    // Nearly every text occurs in one row only and needs no set.
    if (rows === undefined) rowsOf.set(text, at)
    else if (typeof rows !== 'number') rows.add(at)
    else if (rows !== at) rowsOf.set(text, new Set([rows, at]))
  }
  const same = passes.filter((item) => {
    const text = summary[item] ?? ''
    const rows = rowsOf.get(text)
    return text !== '' && typeof rows === 'object' && rows.size >= 5
  })
  if (same.length <= passes.length / 2) for (const item of same) mark(item)
}
