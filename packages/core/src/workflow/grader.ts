import type { RolloutSample } from '../rollout-sample.ts'
import { implementsBranded, type RolloutGroup } from './agent-workflow.ts'
import type { MetadataOf } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.grader')

/** The input of a grader, and the methods that set rewards. */
export interface GraderContext<TConfig = unknown, TWorkflowConfig = unknown> {
  /** The row's reference answer; null when it has none. */
  readonly label: string | null
  /**
   * The row's reference answer. Without one every answer would be right, or none, so the rollout fails without a reward.
   *
   * @throws OsmosisError with code `invalid_dataset` when the row has none
   */
  requireLabel(): string
  /** The row's metadata as the workflow received it; null when it has none. */
  readonly metadata: MetadataOf<TWorkflowConfig>
  /** All samples of the rollout by their ids, in the order they were registered. */
  readonly samples: ReadonlyMap<string, RolloutSample>
  /**
   * The only sample of the rollout.
   *
   * @throws OsmosisError with code `unknown_sample` when there is not exactly one
   */
  readonly sample: RolloutSample
  /**
   * What `run()` of the workflow returned: JSON data of at most 1 MiB, such as the object that a program gives to its
   * users. It is stored with the rollout, so that a later grading reads the same. Null when the policy ended the rollout
   * before `run()` returned, as by a limit or an answer that its framework could not use.
   *
   * @throws OsmosisError with code `no_output` when `run()` returned nothing, its conversation, or something that is not
   * JSON data
   */
  readonly output: unknown
  readonly config: TConfig
  readonly rolloutId: string
  /** Null when the rollout is not part of a group. */
  readonly group: RolloutGroup | null
  /** Aborted at the grader's deadline, at the cancellation of the rollout, and when the grading has ended. */
  readonly signal: AbortSignal
  /** The folder where the workflow could store files; null when it cannot be created. */
  readonly artifactsDir: string | null
  /** What `workFolder()` of the workflow returned; null without, and when the rollout is graded again. */
  readonly workFolder: string | null
  /**
   * Sets the reward of a sample; a later call replaces an earlier one.
   *
   * @throws OsmosisError with code `unknown_sample` or `invalid_reward`
   */
  setSampleReward(sampleId: string, reward: number): void
  /** Sets the reward of the only sample. Throws what `sample` and `setSampleReward` throw. */
  setReward(reward: number): void
  /**
   * Sets rewards of the steps of a sample: a number, or null for none, for each answered model call in their
   * order. The sample needs its own reward, too. Only `osmosis train` and the trace of `POST /run` have step rewards;
   * Agent Lightning, Miles and Osmosis train with one number per sample. A later call replaces an earlier one.
   * Ignored for a sample without `calls`, as when it is graded again.
   *
   * @throws OsmosisError with code `unknown_sample` or `invalid_reward`
   */
  setStepRewards(sampleId: string, rewards: readonly (number | null)[]): void
  /**
   * Removes a sample from training: it needs no reward, and none is reported.
   *
   * @throws OsmosisError with code `unknown_sample`
   */
  removeSample(sampleId: string): void
}

/**
 * Judges the samples of a rollout. Each rollout has its own instance. Pass the type of the workflow's config as
 * the second type parameter to type `ctx.metadata`.
 */
export abstract class Grader<TConfig = unknown, TWorkflowConfig = unknown> {
  static readonly [brand] = true
  readonly config: TConfig

  constructor(config: TConfig) {
    this.config = config
  }

  /** Sets the reward of every sample, or removes it. The return value is ignored. */
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
