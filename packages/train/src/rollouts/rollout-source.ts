import type { PolicyModel } from '@osmosis/controller'
import type { ItemRunner } from '@osmosis/eval'
import type { SequenceCall } from '@osmosis/protocol/trajectory'

/** What a rollout of a {@link RolloutSource} leaves for the trainer. */
export interface SampledCalls {
  /** The model calls of the sample, with token ids. */
  readonly calls: readonly SequenceCall[]
}

/** Runs the rollouts of a training. */
export interface RolloutSource {
  readonly runner: ItemRunner
  /** Whether the attempts at a row are graded together. Default: false. */
  readonly gradesGroups?: boolean
  /** Called before the rollouts of a step, with a text that its answers are drawn by: equal in trainings with the same seed. */
  startStep?(seed: string): void
  /**
   * What the samples of a rollout said, by sample id. Called once for each rollout, when its outcome is known
   * and before the runner reports it.
   */
  callsOf(rolloutId: string): ReadonlyMap<string, SampledCalls>
  close(): Promise<void>
}

/** Opens a source of rollouts whose model calls are answered by `policy`, which the caller closes. */
export type OpenRollouts = (policy: PolicyModel) => Promise<RolloutSource>
