import type { SamplesById } from '@osmosis/runtime'
import { isDeepStrictEqual, types } from 'node:util'
import { deserialize, serialize } from 'node:v8'

import type { RolloutSample } from '@osmosis/core'
import { sendSamples } from '@osmosis/workers/messages'

/** What is long in a sample, and what graders leave as it is. */
const longParts = ['messages', 'trajectoryMessages', 'calls'] as const
type LongParts = Pick<RolloutSample, (typeof longParts)[number]>

/** A sample as it is stored. */
export interface StoredSample {
  readonly rest: Omit<RolloutSample, keyof LongParts>
  /** Its long parts, serialized; undefined: as the workflow left them. */
  readonly long: Uint8Array | undefined
}

/** What was in the long parts of samples when they were stored, by sample id. */
export type SampleSnapshot = ReadonlyMap<string, Leaves>

/**
 * Takes samples apart, so that what is long in them is packed and sent once.
 *
 * @param pack - packs what is stored
 * @param left - as the workflow left them: what has not changed since is left out
 * @returns `isWhole`: false when long parts could not be stored
 */
export function packSamples<T>(
  samples: SamplesById,
  pack: (kept: readonly StoredSample[]) => T,
  left: SampleSnapshot = new Map(),
): { readonly packed: T; readonly isWhole: boolean } {
  const unchanged = [...samples.values()].filter((one) => isSame(one, left.get(one.id)))
  const same = new Set(unchanged.map(({ id }) => id))
  const changed = new Map(
    [...samples].map(([key, sample]) => [
      key,
      same.has(sample.id) ? { ...sample, ...nothingLong } : sample,
    ]),
  )
  const all = [...changed.values()]
  let isWhole = true
  const packed = sendSamples(changed, (sent) => {
    isWhole = sent.every((sample, n) => lengthsOf(sample) === lengthsOf(all[n]))
    return pack(
      sent.map((sample) => {
        const { messages: _, trajectoryMessages: __, calls: ___, ...rest } = sample
        return { rest, long: same.has(rest.id) ? undefined : serialize(once(longOf(sample))) }
      }),
    )
  })
  return { packed, isWhole }
}

/** What is in samples now. */
export function snapshotSamples(samples: SamplesById): SampleSnapshot {
  return new Map(
    [...samples.values()].flatMap((sample) => {
      const leaves = leavesOf(longOf(sample))
      return leaves === undefined ? [] : [[sample.id, leaves] as const]
    }),
  )
}

/** @param workflow - the samples as the workflow left them */
export function unpackSamples(
  kept: readonly StoredSample[],
  workflow: SamplesById = new Map(),
): SamplesById {
  return new Map(
    kept.map(({ rest, long }) => {
      const same = (): unknown => longOf(workflow.get(rest.id))
      const parts = (long === undefined ? same() : deserialize(long)) as LongParts
      return [rest.id, { ...rest, ...parts }]
    }),
  )
}

const nothingLong = { messages: [], trajectoryMessages: null, calls: [] }

function isSame(sample: RolloutSample, before: Leaves | undefined): boolean {
  const now = before && leavesOf(longOf(sample))
  if (now === undefined || now.length !== before?.length) return false
  return now.every((leaf, n) => Object.is(leaf, before[n]))
}

/** A long part is stored whole, or not at all. */
function lengthsOf(sample: RolloutSample | undefined): string {
  return longParts.map((name) => sample?.[name]?.length).join(' ')
}

/** With what the conversation and the trajectory both say in one place: that is written once. */
function once(parts: Partial<LongParts>): Partial<LongParts> {
  const { messages, trajectoryMessages } = parts
  if (!Array.isArray(messages) || !Array.isArray(trajectoryMessages)) return parts
  const said: readonly unknown[] = messages
  const same = (trajectoryMessages as readonly unknown[]).map((message, n) =>
    isDeepStrictEqual(message, said[n]) ? said[n] : message,
  )
  return { ...parts, trajectoryMessages: same as LongParts['trajectoryMessages'] }
}

/** Sources are user code, and may have left some out. */
function longOf(sample: RolloutSample | undefined): Partial<LongParts> {
  const parts = longParts.flatMap((name) =>
    sample !== undefined && name in sample ? [[name, sample[name]] as const] : [],
  )
  return Object.fromEntries(parts)
}

/** All that is in a value, in its order. Equal ones are of equal values; strings are shared with these. */
type Leaves = readonly unknown[]

/** More than this is not listed. */
const mostLeaves = 100_000
const list = Symbol('list')
const fields = Symbol('fields')

/** Undefined for what is not plain data all through: others may change without a trace. */
function leavesOf(value: unknown): Leaves | undefined {
  const leaves: unknown[] = []
  try {
    return collect(value, leaves) ? leaves : undefined
  } catch {
    // Too deep, or a field that cannot be read.
    return undefined
  }
}

/** @returns whether all of it was listed */
function collect(value: unknown, leaves: unknown[]): boolean {
  if (leaves.length > mostLeaves) return false
  if (typeof value === 'function') return false
  if (typeof value !== 'object' || value === null) {
    leaves.push(value)
    return true
  }
  if (types.isProxy(value)) return false
  if (Array.isArray(value)) {
    leaves.push(list, value.length)
    // Places that were left empty are looked at as well.
    for (const item of value) if (!collect(item, leaves)) return false
    return true
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  const names = Object.keys(value)
  leaves.push(fields, names.length)
  for (const name of names) {
    leaves.push(name)
    if (!collect((value as Record<string, unknown>)[name], leaves)) return false
  }
  return true
}
