import { hash } from 'node:crypto'
import { deserialize, serialize } from 'node:v8'

import type { RolloutSample } from '@osmosis/core'
import { portable } from '@osmosis/workers/internal'

export type Samples = ReadonlyMap<string, RolloutSample>

/** What is long in a sample, and what graders leave as it is. */
const longParts = ['messages', 'trajectoryMessages', 'calls'] as const
type LongParts = Pick<RolloutSample, (typeof longParts)[number]>

/** A sample as it is kept. */
export interface KeptSample {
  readonly rest: Omit<RolloutSample, keyof LongParts>
  /** Its long parts, serialized; undefined: as the workflow left them. */
  readonly long: Uint8Array | undefined
}

/** Digests of the long parts of samples, by the ids of these. */
export type LongDigests = ReadonlyMap<string, string>

/**
 * Takes samples apart, so that what is long in them is packed and sent once.
 *
 * @param pack - packs what is kept
 * @param known - of the samples as the workflow left them: what has not changed since is left out
 */
export function packSamples<T>(
  samples: Samples,
  pack: (kept: readonly KeptSample[]) => T,
  known?: LongDigests,
): T {
  const all = [...samples.values()]
  try {
    return pack(all.map((sample) => keptSample(portable(sample) as RolloutSample, known)))
  } catch {
    // Whatever cannot be cloned or is too deep: conversations are optional, the outcome is not.
    const bare = { messages: [], trajectoryMessages: null, calls: [], metrics: {}, extraFields: {} }
    return pack(all.map((sample) => keptSample({ ...sample, ...bare }, known)))
  }
}

export function digestsOf(kept: readonly KeptSample[]): LongDigests {
  return new Map(kept.map(({ rest, long }) => [rest.id, long === undefined ? '' : digest(long)]))
}

/** @param workflow - the samples as the workflow left them */
export function unpackSamples(kept: readonly KeptSample[], workflow: Samples = new Map()): Samples {
  return new Map(
    kept.map(({ rest, long }) => {
      const same = (): unknown => longOf(workflow.get(rest.id))
      const parts = (long === undefined ? same() : deserialize(long)) as LongParts
      return [rest.id, { ...rest, ...parts }]
    }),
  )
}

function keptSample(sample: RolloutSample, known: LongDigests | undefined): KeptSample {
  const { messages: _, trajectoryMessages: __, calls: ___, ...rest } = sample
  const long = serialize(longOf(sample))
  return { rest, long: known?.get(sample.id) === digest(long) ? undefined : long }
}

/** Sources are user code, and may have left some out. */
function longOf(sample: RolloutSample | undefined): Partial<LongParts> {
  const parts = longParts.flatMap((name) =>
    sample !== undefined && name in sample ? [[name, sample[name]] as const] : [],
  )
  return Object.fromEntries(parts)
}

function digest(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'base64')
}
