import { OsmosisError } from '@osmosis/core'

import { sampledIn } from '../../batch/loss-scales.ts'
import type { BatchSequence, TrainingBatch } from '../../learner.ts'

/** Limits of one request, as the hosted service has them. */
const [mostData, mostBytes] = [1024, 4_500_000]

/** Numbers as the service takes them. */
interface Tensor {
  readonly data: readonly number[]
  readonly dtype: 'int64' | 'float32'
  readonly shape: readonly number[]
}

/** A sequence as the service takes it. */
export interface Datum {
  readonly model_input: {
    readonly chunks: readonly {
      readonly type: 'encoded_text'
      readonly tokens: readonly number[]
    }[]
  }
  readonly loss_fn_inputs: Readonly<Record<string, Tensor>>
}

/** The body of a `forward_backward` request. */
export interface ForwardBackward {
  readonly model_id: string
  readonly seq_id: number
  readonly forward_backward_input: {
    readonly data: readonly Datum[]
    readonly loss_fn: string
    readonly loss_fn_config?: Readonly<Record<string, number>>
  }
}

/**
 * The datum of a sequence. Inputs and targets are shifted by one.
 *
 * @param scale - of the loss of its tokens
 */
export function toDatum(
  { ids, logprobs, advantages, mask }: BatchSequence,
  loss: TrainingBatch['loss'],
  scale: number,
  lossReduction: 'sum' | 'sequence_mean',
): Datum {
  const isMean = lossReduction === 'sequence_mean'
  const own = isMean ? scale * sampledIn(mask) : scale
  // Where nothing was sampled, advantages and weights are 0.
  const weighed = tensor(
    advantages.map((advantage) => advantage * own),
    'float32',
  )
  const inputs: Datum['loss_fn_inputs'] =
    loss === 'cross_entropy'
      ? { weights: weighed }
      : {
          logprobs: tensor(logprobs, 'float32'),
          advantages: weighed,
          ...(isMean ? { weights: tensor(mask, 'float32') } : {}),
        }
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: ids.slice(0, -1) }] },
    loss_fn_inputs: { target_tokens: tensor(ids, 'int64'), ...inputs },
  }
}

/** Differences between the logprobs of the service and the recorded ones. */
export interface Drift {
  readonly mean: number
  readonly max: number
}

export function driftOf(
  sequences: readonly BatchSequence[],
  outputs: readonly (readonly number[])[],
): Drift {
  let [total, count, max] = [0, 0, 0]
  for (const [at, { mask, logprobs }] of sequences.entries()) {
    for (const [place, isSampled] of mask.entries()) {
      const now = outputs[at]?.[place - 1]
      if (isSampled === 0 || now === undefined) continue
      const difference = Math.abs(now - (logprobs[place] ?? 0))
      total += difference
      count += 1
      max = Math.max(max, difference)
    }
  }
  return { mean: total / Math.max(1, count), max }
}

/** @throws OsmosisError with code `training_drift` */
export function assertSmallDrift({ mean }: Drift, most: number): void {
  if (mean <= most) return
  throw new OsmosisError(
    'training_drift',
    `The logprobs of the service differ by ${mean.toFixed(3)} on average from those that were sampled, and ${most} is allowed. No update was made. Usual causes: another chat template or tokenizer than the model's, a temperature other than 1, dropout.`,
  )
}

function tensor(values: readonly number[], dtype: Tensor['dtype']): Tensor {
  const data = values.slice(1)
  return { data, dtype, shape: [data.length] }
}

/** A batch in parts of about the same number of sequences, each from all rows. */
export function inMinibatches({ loss, sequences }: TrainingBatch, count: number): TrainingBatch[] {
  return Array.from({ length: count }, (_, part) => ({
    loss,
    sequences: sequences.filter((_sequence, at) => at % count === part),
  })).filter((part) => part.sequences.length > 0)
}

/** The data of an update, as many in a request as the service takes. */
export function* inParts(data: readonly Datum[]): Generator<Datum[]> {
  let part: Datum[] = []
  let bytes = 0
  for (const datum of data) {
    const size = JSON.stringify(datum).length
    if (part.length > 0 && (part.length === mostData || bytes + size > mostBytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(datum)
    bytes += size
  }
  if (part.length > 0) yield part
}

export function sum<T>(items: readonly T[], value: (item: T, at: number) => number): number {
  return items.reduce((total, item, at) => total + value(item, at), 0)
}
