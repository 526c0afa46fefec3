import { isDeepStrictEqual, types } from 'node:util'
import { deserialize, serialize } from 'node:v8'

import type { RolloutSample } from '@osmosis/core'
import type { GradingOutcome, SamplesById, WorkflowOutcome } from '@osmosis/protocol'
import {
  receiveGrading,
  receiveWorkflow,
  sendSamples,
  type SentFailure,
  type SentWorkflow,
} from '@osmosis/server/child'

/** The outcome of a grading as it is stored. */
export interface StoredGradingOutcome {
  readonly failure: SentFailure | null
  /** Undefined: the unchanged samples of the workflow. */
  readonly samples: readonly StoredSample[] | undefined
}

/** The outcome of a workflow with its samples. */
export interface StoredWorkflow {
  readonly outcome: WorkflowOutcome
  readonly samples: SamplesById
}

const none: SamplesById = new Map()

/** Decrypts stored values. */
interface SealedValues {
  open(id: string, place: string, sealed: Buffer): unknown
}

/** Fields of a record, which are decrypted on access. */
export class RecordFields {
  readonly #records: SealedValues
  readonly #id: string
  readonly #fields: ReadonlyMap<string, Buffer | null>

  constructor(records: SealedValues, id: string, fields: ReadonlyMap<string, Buffer | null>) {
    this.#records = records
    this.#id = id
    this.#fields = fields
  }

  /** The stored bytes; undefined for a missing field. */
  get(name: string): Buffer | undefined {
    return this.#fields.get(name) ?? undefined
  }

  open(name: string): unknown {
    const blob = this.get(name)
    return blob && this.#records.open(this.#id, name, blob)
  }

  /**
   * The outcome of the workflow.
   *
   * @param isWhole - whether to read its samples as well; default: true
   */
  workflow(isWhole = true): StoredWorkflow | undefined {
    const sent = this.open('workflow')
    if (sent === undefined) return undefined
    const read = (name: 'samples' | 'partial'): SamplesById => (isWhole ? this.samples(name) : none)
    const outcome = receiveWorkflow(sent as SentWorkflow, Promise.resolve(read('partial')))
    return { outcome, samples: read('samples') }
  }

  samples(name: 'samples' | 'partial' = 'samples'): SamplesById {
    return unpackSamples((this.open(name) ?? []) as readonly StoredSample[])
  }

  /** @param workflow - the samples as the workflow left them */
  grading(workflow: SamplesById): GradingOutcome | undefined {
    const sent = this.open('grading')
    if (sent === undefined) return undefined
    const { failure, samples } = sent as StoredGradingOutcome
    return receiveGrading(failure, samples ? unpackSamples(samples, workflow) : workflow)
  }
}

/** The large parts of a sample, which graders rarely change. */
const longParts = ['messages', 'trajectoryMessages', 'calls'] as const
type LongParts = Pick<RolloutSample, (typeof longParts)[number]>

/** A sample as it is stored. */
export interface StoredSample {
  readonly rest: Omit<RolloutSample, keyof LongParts>
  /** Its large parts, serialized; undefined: unchanged since the workflow. */
  readonly long: Uint8Array | undefined
}

/** The content of the large parts of samples when they were stored, by sample id. */
export type SampleSnapshot = ReadonlyMap<string, Leaves>

/**
 * Splits samples, so that their large parts are stored only once.
 *
 * @param pack - packs the stored form
 * @param left - snapshot after the workflow; large parts that have not changed since are left out
 * @returns `isWhole`: false when large parts could not be stored
 */
export function packSamples<T>(
  samples: SamplesById,
  pack: (stored: readonly StoredSample[]) => T,
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

/** A snapshot of the large parts of samples. */
export function snapshotSamples(samples: SamplesById): SampleSnapshot {
  return new Map(
    [...samples.values()].flatMap((sample) => {
      const leaves = leavesOf(longOf(sample))
      return leaves === undefined ? [] : [[sample.id, leaves] as const]
    }),
  )
}

/** @param workflow - the samples as the workflow left them */
function unpackSamples(
  stored: readonly StoredSample[],
  workflow: SamplesById = new Map(),
): SamplesById {
  return new Map(
    stored.map(({ rest, long }) => {
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

/** A large part is stored completely or not at all. */
function lengthsOf(sample: RolloutSample | undefined): string {
  return longParts.map((name) => sample?.[name]?.length).join(' ')
}

/** Shares equal messages between the conversation and the trajectory, so that they are serialized once. */
function once(parts: Partial<LongParts>): Partial<LongParts> {
  const { messages, trajectoryMessages } = parts
  if (!Array.isArray(messages) || !Array.isArray(trajectoryMessages)) return parts
  const conversation: readonly unknown[] = messages
  const same = (trajectoryMessages as readonly unknown[]).map((message, n) =>
    isDeepStrictEqual(message, conversation[n]) ? conversation[n] : message,
  )
  return { ...parts, trajectoryMessages: same as LongParts['trajectoryMessages'] }
}

/** Sample sources are user code, and may leave parts out. */
function longOf(sample: RolloutSample | undefined): Partial<LongParts> {
  const parts = longParts.flatMap((name) =>
    sample !== undefined && name in sample ? [[name, sample[name]] as const] : [],
  )
  return Object.fromEntries(parts)
}

/** All primitive values inside a value, in order. Equal lists mean equal values. */
type Leaves = readonly unknown[]

/** A value with more leaves has no list. */
const mostLeaves = 100_000
const list = Symbol('list')
const fields = Symbol('fields')

/** Undefined for a value that is not plain data, because its changes may be invisible. */
function leavesOf(value: unknown): Leaves | undefined {
  const leaves: unknown[] = []
  try {
    return collect(value, leaves) ? leaves : undefined
  } catch {
    // Nested too deeply, or a field that cannot be read.
    return undefined
  }
}

/** @returns whether the whole value was listed */
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
    // Includes empty slots.
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
