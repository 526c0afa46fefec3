import type { PolicyModel } from '@osmosis/controller'
import type { UpdateFigures } from '@osmosis/eval/analysis'

/** A token sequence of a batch, with what an update needs for each token. */
export interface BatchSequence {
  readonly ids: readonly number[]
  /** The logprob of each sampled token when it was sampled; 0 for the others. */
  readonly logprobs: readonly number[]
  /** By token; 0 for those that were not sampled. */
  readonly advantages: readonly number[]
  /** 1 for each token that the policy sampled and the update trains, else 0. */
  readonly mask: readonly (0 | 1)[]
  /**
   * At which the answers were sampled. Null where their requests named none, so that it is the default of the learner's own
   * {@link Learner.policy}: 1 for the learners of this package.
   */
  readonly temperature: number | null
  readonly rolloutId: string
  readonly sampleId: string
  /** The oldest version of the policy that sampled tokens of it. */
  readonly policyVersion: number
  /** The newest one. */
  readonly newestVersion: number
}

/** What one update learns from. */
export interface TrainingBatch {
  /**
   * `policy_gradient` makes tokens with a positive advantage more likely and the others less. `cross_entropy` makes all
   * masked tokens more likely; advantages weigh them.
   */
  readonly loss: 'policy_gradient' | 'cross_entropy'
  readonly sequences: readonly BatchSequence[]
}

/**
 * What a policy-gradient update minimizes. They differ in how tokens are weighed: all tokens of the batch equally (`dapo`,
 * `cispo`), each sequence equally (`grpo`, `gspo`), or by a constant (`dr_grpo`). `gspo` clips the mean ratio of a sequence, with
 * the gradient of each token (GSPO-token); `cispo` clips the weight of a token and keeps its gradient. Sequences without an advantage are
 * in no batch, so they count in no divisor and in no divergence.
 */
export type PolicyLoss = 'grpo' | 'dr_grpo' | 'dapo' | 'cispo' | 'gspo'

/** How one update is made. */
export interface UpdateSettings {
  readonly loss: PolicyLoss
  /** Tokens of the longest answer: the constant of `dr_grpo`. */
  readonly longestAnswer: number
  readonly learningRate: number
  /** Passes over the batch. */
  readonly epochs: number
  /** Optimizer steps in one pass. */
  readonly minibatches: number
  /** The ratio of new to old probability is clipped below 1 − `clipLow` … */
  readonly clipLow: number
  /** … and above 1 + `clipHigh`; with `cispo` above `clipHigh`. */
  readonly clipHigh: number
  /** Weight of the divergence from the policy at the start of the training; 0 switches it off. */
  readonly kl: number
  /** The gradient is scaled down to this norm. */
  readonly maxGradNorm: number
  readonly weightDecay: number
  /** Limit of the weight of a token whose probability was lower when it was sampled than it is for the learner. */
  readonly importanceCap: number
  /** An update is refused when the learner's logprobs differ by more than this from the recorded ones, on average. */
  readonly maxDrift: number
  /** Decides the order of the sequences. */
  readonly seed: number
}

/**
 * Owns the weights of a policy. `train` calls one method at a time. Rollouts run during an update, and while the state after
 * it is saved, with `maxStaleness` alone; each answer names the oldest version that sampled tokens of it.
 *
 * Errors are `OsmosisError`s: `training_drift` when an update is refused because of its logprobs, and
 * `learner_error` for everything else. After an update that failed the weights are unknown, unless the error says otherwise:
 * they are not saved, and the training continues from the last saved state.
 */
export interface Learner {
  /** Name of the base model, for reports. */
  readonly name: string
  /** What the base model is made of, which must not change during a training: size and digest of its files. Default: unknown. */
  readonly modelFiles?: string | undefined
  /**
   * Which of its weights are trained, by the flags and keys that decide it, such as `--lora-rank`; must not change during a training.
   * Default: unknown.
   */
  readonly trained?: Readonly<Record<string, string | number>> | undefined
  /**
   * Answers the model calls of rollouts. Each answer has token ids and logprobs, and its `model` ends with the
   * version that sampled it: `policy-7`.
   */
  readonly policy: PolicyModel
  /** Number of updates so far. */
  readonly version: number
  /** Updates the weights once, and raises the version by one. */
  update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures>
  /** Saves weights, optimizer and version so that {@link Learner.load} continues exactly here. */
  save(folder: string): Promise<void>
  /** Restores what {@link Learner.save} saved. */
  load(folder: string): Promise<void>
  /** Writes the policy in the form that inference servers load. */
  export(folder: string): Promise<void>
  close(): Promise<void>
}
