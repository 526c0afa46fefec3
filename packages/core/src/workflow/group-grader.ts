import type { ErrorCategory } from '../error-category.ts'
import { implementsBranded } from './branded-class.ts'
import type { GraderContext } from './grader.ts'
import type { MetadataOf } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.group-grader')

/** An attempt of a group that has samples to judge. */
export interface GroupMember extends Pick<
  GraderContext,
  | 'rolloutId'
  | 'samples'
  | 'sample'
  | 'artifactsDir'
  | 'setSampleReward'
  | 'setReward'
  | 'setStepRewards'
  | 'removeSample'
> {
  /** Which attempt it is, from 1. */
  readonly attempt: number
}

/** An attempt of a group that has nothing to judge, and gets no reward. */
export interface FailedMember {
  /** Which attempt it is, from 1. */
  readonly attempt: number
  readonly rolloutId: string
  readonly category: ErrorCategory
  /** What it failed of. */
  readonly message: string
}

/** What a group grader judges, and how it sets rewards. */
export interface GroupGraderContext<TConfig = unknown, TWorkflowConfig = unknown> {
  /** Its id, and how many attempts it has, those included that failed or never came. */
  readonly group: { readonly id: string; readonly size: number }
  /** The row's reference answer; null when it has none. */
  readonly label: string | null
  /** The row's metadata, as the workflows saw it; null when it has none. */
  readonly metadata: MetadataOf<TWorkflowConfig>
  /** The attempts that can be judged, by their number: at least as many as `group.minSize` of the config. */
  readonly members: readonly GroupMember[]
  /** The attempts that failed or were cancelled, by their number. */
  readonly failed: readonly FailedMember[]
  /** The numbers of the attempts that never came. */
  readonly missing: readonly number[]
  /** Whether every attempt of the group is in `members`. */
  readonly complete: boolean
  readonly config: TConfig
  /** Aborted at the grader's deadline, and when every member has been cancelled. */
  readonly signal: AbortSignal
}

/**
 * Judges all attempts at a row together, where the trainer or the evaluation gives groups: for rewards
 * that only a comparison can give. One instance serves one group. With the type of the workflow's config
 * as the second parameter, `ctx.metadata` has the shape which that declares.
 */
export abstract class GroupGrader<TConfig = unknown, TWorkflowConfig = unknown> {
  static readonly [brand] = true
  readonly config: TConfig

  constructor(config: TConfig) {
    this.config = config
  }

  /**
   * Gives every sample that is kept, of every member, a reward. A member that lacks one fails alone; what
   * is thrown fails all of them. What it returns is ignored.
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
