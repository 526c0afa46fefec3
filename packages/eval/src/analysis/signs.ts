import { statusCodes } from './document-writer.ts'
import { quantile } from './quantile.ts'
import type { RunDocument } from './run-document.ts'
import { findUnearned } from './unearned.ts'

/**
 * What is conspicuous about an item, the worst first. `unearned`: a pass that looks it. `stuck`: three
 * errors or more of one tool. `cut`: a call ended for want of tokens. `rewritten`: a call did not extend
 * the conversation before it. `nocalls`: it succeeded without asking the policy. `long`: it wrote more
 * than 99 % of the items and twice the median.
 */
export const signs = [
  'unearned',
  'failed',
  'stuck',
  'nocalls',
  'cut',
  'rewritten',
  'toolerror',
  'long',
  'skipped',
] as const
/** One of {@link signs}. */
export type Sign = (typeof signs)[number]

/** Errors of one tool from which on a rollout is stuck. */
const stuckErrors = 3

/** Of each sign. */
export const signBits = Object.fromEntries(signs.map((sign, at) => [sign, 1 << at])) as Readonly<
  Record<Sign, number>
>

/** What has been found out about all items: signs as {@link signBits}. */
export interface ItemSigns {
  readonly bits: Uint16Array
  /** Bits of the reasons for which a pass looks unearned. */
  readonly unearned: Uint8Array
}

export function findSigns(document: RunDocument, passed: Uint8Array): ItemSigns {
  const { columns } = document
  const unearned = findUnearned(document, passed)
  const stuck = document.toolUses.map((use) =>
    use.some((errors, at) => at % 3 === 2 && errors >= stuckErrors),
  )
  const tokens = new Float64Array(columns.completionTokens.map((count) => count ?? 0)).toSorted()
  const long = Math.max(quantile(tokens, 0.99) ?? 0, 2 * (quantile(tokens, 0.5) ?? 0))
  const bits = new Uint16Array(passed.length)
  for (let item = 0; item < bits.length; item++) {
    const status = columns.status[item]
    let found = 0
    if (unearned[item] !== 0) found |= signBits.unearned
    if (status === statusCodes.failed) found |= signBits.failed
    if (status === statusCodes.skipped) found |= signBits.skipped
    if (status === statusCodes.success && columns.calls[item] === 0) found |= signBits.nocalls
    if (stuck[columns.toolUse[item] ?? -1]) found |= signBits.stuck
    if (columns.cut[item] !== 0) found |= signBits.cut
    if (columns.rewritten[item] !== 0) found |= signBits.rewritten
    if (columns.toolErrors[item] !== 0) found |= signBits.toolerror
    if ((columns.completionTokens[item] ?? 0) > long) found |= signBits.long
    bits[item] = found
  }
  return { bits, unearned }
}
