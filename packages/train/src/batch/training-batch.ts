import type { BatchCounts } from '@osmosis/eval/analysis'
import type { TrainingSequence } from '@osmosis/protocol/trajectory'

import type { BatchSequence, TrainingBatch } from '../learner.ts'
import { groupAdvantages, type AdvantageOptions } from './advantages.ts'
import { sampledIn } from './loss-scales.ts'

/** A sample of a rollout that ended, with its sequences. */
export interface TrainableSample {
  readonly rolloutId: string
  readonly sampleId: string
  /** The row that it is an attempt at. */
  readonly row: number
  readonly reward: number
  readonly stepRewards?: readonly (number | null)[] | undefined
  readonly sequences: readonly TrainingSequence[]
  readonly withoutIds: number
  readonly untrainable: number
}

/** Options of {@link policyGradientBatch}. */
export interface BatchOptions extends AdvantageOptions {
  /** Number of updates so far. */
  readonly version: number
  /** How many updates old a sequence may be. Default: 0. */
  readonly maxStaleness?: number | undefined
  /** Whether answers that reached their limit of tokens are not trained. Default: false. */
  readonly maskCutAnswers?: boolean
}

/** A batch, and an account of what it leaves out. */
export interface CountedBatch {
  readonly batch: TrainingBatch
  readonly counts: BatchCounts
}

/** The batch from which a policy learns what was better than the other attempts at a row. */
export function policyGradientBatch(
  samples: readonly TrainableSample[],
  options: BatchOptions,
): CountedBatch {
  const ordered = inOrder(samples)
  const groupOf = groupsOf(ordered)
  const advantages = groupAdvantages(
    ordered.map((sample) => ({ ...sample, group: groupOf(sample) })),
    options,
  )
  const weighed = ordered.map((sample, at) => ({ sample, weigh: advantages[at] ?? (() => 0) }))
  const signals = new Set<string>()
  for (const { sample, weigh } of weighed) {
    const calls = sample.sequences.flatMap(({ answers }) => answers.map(({ call }) => call))
    if (calls.some((call) => weigh(call) !== 0)) signals.add(groupOf(sample))
  }
  const groups = new Set(ordered.map(groupOf))
  return counted('policy_gradient', weighed, options, {
    groups: groups.size,
    groupsWithSignal: signals.size,
  })
}

/**
 * Names the group of a sample: those of a row with the same id. Where each attempt at a row has one sample, they are compared
 * whatever their ids: an agent without a name has another id in each rollout.
 */
function groupsOf(samples: readonly TrainableSample[]): (sample: TrainableSample) => string {
  const rollouts = Map.groupBy(samples, ({ rolloutId }) => rolloutId)
  const severalOf = [...rollouts.values()].filter(({ length }) => length > 1)
  const rows = new Set(severalOf.flat().map(({ row }) => row))
  return ({ row, sampleId }) => (rows.has(row) ? `${row}/${sampleId}` : String(row))
}

/** The batch from which a policy learns to repeat all samples whose reward is at least `threshold`. */
export function rejectionBatch(
  samples: readonly TrainableSample[],
  { threshold, ...options }: BatchOptions & { readonly threshold: number },
): CountedBatch {
  const good = inOrder(samples).filter(({ reward }) => reward >= threshold)
  const weighed = good.map((sample) => ({ sample, weigh: () => 1 }))
  const rows = new Set(samples.map(({ row }) => row))
  const withGood = new Set(good.map(({ row }) => row))
  return counted('cross_entropy', weighed, options, {
    groups: rows.size,
    groupsWithSignal: withGood.size,
  })
}

interface WeighedSample {
  readonly sample: TrainableSample
  readonly weigh: (call: number) => number
}

function counted(
  loss: TrainingBatch['loss'],
  weighed: readonly WeighedSample[],
  { version, maxStaleness = 0, maskCutAnswers = false }: BatchOptions,
  groups: Pick<BatchCounts, 'groups' | 'groupsWithSignal'>,
): CountedBatch {
  const sequences: BatchSequence[] = []
  const ages: number[] = []
  let [tokens, constrained, stale, splits, withoutIds, untrainable] = [0, 0, 0, 0, 0, 0]
  for (const { sample, weigh } of weighed) {
    splits += Math.max(0, sample.sequences.length - 1)
    withoutIds += sample.withoutIds
    untrainable += sample.untrainable
    for (const sequence of sample.sequences) {
      const toTrain = toBatchSequence(sample, sequence, { weigh, maskCutAnswers })
      if (toTrain.policyVersion < version - maxStaleness) stale += 1
      else if (toTrain.advantages.some((advantage) => advantage !== 0)) {
        sequences.push(toTrain)
        tokens += sampledIn(toTrain.mask)
        constrained += sequence.answers.filter((answer) => answer.constraints !== undefined).length
        if (Number.isFinite(toTrain.policyVersion)) ages.push(version - toTrain.policyVersion)
      }
    }
  }
  const age = ages.length === 0 ? 0 : ages.reduce((sum, one) => sum + one, 0) / ages.length
  const counts = {
    sequences: sequences.length,
    tokens,
    age,
    constrained,
    stale,
    splits,
    withoutIds,
    untrainable,
  }
  return { batch: { loss, sequences }, counts: { ...groups, ...counts } }
}

function toBatchSequence(
  { rolloutId, sampleId }: TrainableSample,
  { ids, logprobs, answers, temperature }: TrainingSequence,
  { weigh, maskCutAnswers }: Pick<WeighedSample, 'weigh'> & { readonly maskCutAnswers: boolean },
): BatchSequence {
  const advantages = ids.map(() => 0)
  const mask = ids.map((): 0 | 1 => 0)
  for (const { call, start, end, isCut = false } of answers) {
    if (isCut && maskCutAnswers) continue
    advantages.fill(weigh(call), start, end)
    mask.fill(1, start, end)
  }
  const versions = answers.map(({ version }) => versionOf(version))
  return {
    ids,
    logprobs,
    advantages,
    mask,
    temperature,
    rolloutId,
    sampleId,
    policyVersion: Math.min(...versions),
    newestVersion: Math.max(...versions),
  }
}

/** The version that most sequences of these samples have, and the older one of two; undefined when none is known. */
export function usualVersion(samples: readonly TrainableSample[]): number | undefined {
  const versions = samples
    .flatMap(({ sequences }) => sequences.map(({ answers }) => oldestVersion(answers)))
    .filter((version) => Number.isFinite(version))
  const counts = [...Map.groupBy(versions, (version) => version)]
  const [most] = counts.toSorted(([a, one], [b, other]) => other.length - one.length || a - b)
  return most?.[0]
}

function oldestVersion(answers: TrainingSequence['answers']): number {
  return Math.min(...answers.map(({ version }) => versionOf(version)))
}

/** The number of a version, such as 7 of `policy-7`; a version without one is never stale. */
function versionOf(version: string | null): number {
  const [, digits] = /(?:^|-)(\d+)$/.exec(version ?? '') ?? []
  return digits === undefined ? Infinity : Number(digits)
}

/** The same rollouts make the same batch, in whichever order they ended. */
function inOrder(samples: readonly TrainableSample[]): TrainableSample[] {
  return samples.toSorted(
    (a, b) => a.row - b.row || compare(a.rolloutId, b.rolloutId) || compare(a.sampleId, b.sampleId),
  )
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
