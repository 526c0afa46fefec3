import type { RolloutSample } from '../rollout-sample.ts'
import { implementsBranded } from './branded-class.ts'
import type { RolloutGroup } from './agent-workflow.ts'
import type { MetadataOf } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.grader')

/** What a grader judges, and how it sets rewards. */
export interface GraderContext<TConfig = unknown, TWorkflowConfig = unknown> {
  /** The row's reference answer; null when it has none. */
  readonly label: string | null
  /** The row's metadata, as the workflow saw it; null when it has none. */
  readonly metadata: MetadataOf<TWorkflowConfig>
  /** All samples of the rollout by their ids, in the order they were registered. */
  readonly samples: ReadonlyMap<string, RolloutSample>
  /**
   * The only sample of the rollout.
   *
   * @throws OsmosisError with code `unknown_sample` when there is not exactly one
   */
  readonly sample: RolloutSample
  readonly config: TConfig
  readonly rolloutId: string
  /** The group that the rollout is an attempt of; null without. */
  readonly group: RolloutGroup | null
  /** Aborted at the grader's deadline or the cancellation of the rollout. */
  readonly signal: AbortSignal
  /** The folder the workflow could keep files in; null when it cannot be made. */
  readonly artifactsDir: string | null
  /**
   * Rewards a sample; a later call replaces an earlier one.
   *
   * @throws OsmosisError with code `unknown_sample` or `invalid_reward`
   */
  setSampleReward(sampleId: string, reward: number): void
  /** Rewards the only sample. Throws what `sample` and `setSampleReward` throw. */
  setReward(reward: number): void
  /**
   * Says what each step of a sample was worth, for trainers that take more than one number: a number,
   * or null for no statement, for each answered model call of the sample, in their order. It does not
   * replace the sample's reward. Only Trinity and the trace of `POST /run` carry step rewards: Agent
   * Lightning, Miles and Osmosis take one number per sample, so they train without them. A later call replaces an earlier one. Where a sample has no `calls`, as when it is graded again
   * later, nothing is kept of them.
   *
   * @throws OsmosisError with code `unknown_sample` or `invalid_reward`
   */
  setStepRewards(sampleId: string, rewards: readonly (number | null)[]): void
  /**
   * Keeps a sample out of training: it needs no reward, and none is reported.
   *
   * @throws OsmosisError with code `unknown_sample`
   */
  removeSample(sampleId: string): void
}

/**
 * Judges the samples of a rollout. One instance serves one rollout. With the type of the workflow's
 * config as the second parameter, `ctx.metadata` has the shape which that declares.
 */
export abstract class Grader<TConfig = unknown, TWorkflowConfig = unknown> {
  static readonly [brand] = true
  readonly config: TConfig

  constructor(config: TConfig) {
    this.config = config
  }

  /** Gives every sample that is kept a reward. What it returns is ignored. */
  abstract grade(ctx: GraderContext<TConfig, TWorkflowConfig>): Promise<unknown>
}

/** A concrete subclass of {@link Grader}. */
export type GraderClass<TConfig = unknown, TWorkflowConfig = unknown> = new (
  config: TConfig,
) => Grader<TConfig, TWorkflowConfig>

/** True for a class that extends Grader (of any installed copy) and implements `grade`. */
export function isGraderClass(value: unknown): value is GraderClass {
  return implementsBranded(value, brand, 'grade')
}
