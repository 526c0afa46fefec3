import type { ErrorCategory } from '../errors.ts'
import { implementsBranded } from './agent-workflow.ts'
import type { GraderContext } from './grader.ts'
import type { MetadataOf } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.group-grader')

/** An attempt of a group that has samples. */
export interface GroupMember extends Pick<
  GraderContext,
  | 'rolloutId'
  | 'samples'
  | 'sample'
  | 'output'
  | 'artifactsDir'
  | 'setSampleReward'
  | 'setReward'
  | 'setStepRewards'
  | 'removeSample'
> {
  /** The number of the attempt, from 1. */
  readonly attempt: number
}

/** An attempt of a group that failed, and so gets no reward. */
export interface FailedMember {
  /** The number of the attempt, from 1. */
  readonly attempt: number
  readonly rolloutId: string
  readonly category: ErrorCategory
  /** Why it failed. */
  readonly message: string
}

/** The input of a group grader. */
export interface GroupGraderContext<TConfig = unknown, TWorkflowConfig = unknown> {
  /** Its id, and the number of its attempts, with those that failed or are missing. */
  readonly group: { readonly id: string; readonly size: number }
  /** The row's reference answer; null when it has none. */
  readonly label: string | null
  /** The same, for a grader that needs it. Throws what `requireLabel` of a `Grader` throws. */
  requireLabel(): string
  /** The row's metadata as the workflows received it; null when it has none. */
  readonly metadata: MetadataOf<TWorkflowConfig>
  /** The attempts with samples, in order: at least `group.minSize` of the config. */
  readonly members: readonly GroupMember[]
  /** The attempts that failed or were cancelled, in order. */
  readonly failed: readonly FailedMember[]
  /** The numbers of the attempts that were never requested. */
  readonly missing: readonly number[]
  /** Whether every attempt of the group is in `members`. */
  readonly complete: boolean
  readonly config: TConfig
  /** Aborted at the grader's deadline, when every member is cancelled, and when the grading has ended. */
  readonly signal: AbortSignal
}

/**
 * Judges all attempts at a row together, for rewards that need a comparison. The trainer or the evaluation has
 * to request groups. Each group has its own instance. Pass the type of the workflow's config as the second type
 * parameter to type `ctx.metadata`.
 */
export abstract class GroupGrader<TConfig = unknown, TWorkflowConfig = unknown> {
  static readonly [brand] = true
  readonly config: TConfig

  constructor(config: TConfig) {
    this.config = config
  }

  /**
   * Sets the reward of every sample of every member, or removes it. A member without a reward fails alone; an
   * error that is thrown fails all of them. The return value is ignored.
   */
  abstract gradeGroup(ctx: GroupGraderContext<TConfig, TWorkflowConfig>): Promise<unknown>
}

/** A concrete subclass of {@link GroupGrader}. */
export type GroupGraderClass<TConfig = unknown, TWorkflowConfig = unknown> = new (
  config: TConfig,
) => GroupGrader<TConfig, TWorkflowConfig>

/** True for a class that extends GroupGrader (of any installed copy) and implements `gradeGroup`. */
export function isGroupGraderClass<TConfig, TWorkflowConfig>(
  value: unknown,
): value is GroupGraderClass<TConfig, TWorkflowConfig> {
  return implementsBranded(value, brand, 'gradeGroup')
}
