import type { SettingValues } from './training-settings.ts'

/** Figures of the rollouts of a step or an evaluation. */
export interface StepFigures {
  readonly rollouts: number
  readonly failed: number
  /** Missing where none failed, and in older trainings. */
  readonly failure?: FrequentFailure
  /** Over rollouts with a reward; null without any. */
  readonly reward: number | null
  /** Of the 95 % confidence interval of the reward; null where there is none. */
  readonly rewardFrom: number | null
  readonly rewardTo: number | null
  /** Fraction of rollouts that reach the pass threshold. */
  readonly passRate: number
  /** Of the 95 % confidence interval of the pass rate; null where there is none, missing in older trainings. */
  readonly passFrom?: number | null
  readonly passTo?: number | null
  /** Sampled tokens per rollout, mean. */
  readonly answerTokens: number
  /** Tool calls per rollout, mean. */
  readonly toolCalls: number
  /** Fraction of model calls that reached the limit of tokens. */
  readonly cutOff: number
  /** Means of what graders set besides rewards, by name, each over the rollouts that have it; missing without any, and in older trainings. */
  readonly metrics?: Readonly<Record<string, number>>
  /** Fraction of rollouts that ended because their context was full; missing where none did, and in older trainings. */
  readonly contextFull?: number
  /** Missing where the attempts at each row differ or pass, and in older trainings. */
  readonly equal?: EqualAttempts
  readonly seconds: number
}

/** What attempts that did not pass have in common, at the rows whose attempts all got the same reward: the most frequent one. */
export interface EqualAttempts {
  /** Number of these rows. */
  readonly rows: number
  readonly reward: number
  /** How the last text of one of them begins: at most 160 characters, on one line; empty when there is none. */
  readonly answer: string
  /** Names of the metrics that are 0 in all of them. */
  readonly missing: readonly string[]
}

/** The most frequent error of rollouts that failed. */
export interface FrequentFailure {
  /** Such as `timeout`. */
  readonly type: string
  /** Number of rollouts that had it. */
  readonly rollouts: number
  /** Of one of them: at most 160 characters, on one line. */
  readonly message: string
}

/** What is in a batch and what is not. */
export interface BatchCounts {
  /** Groups of attempts. */
  readonly groups: number
  /**
   * Groups that train something: their attempts, or with rewards of steps the calls of their attempts, differ in reward. In a warm
   * start: rows with an attempt whose reward reaches the threshold.
   */
  readonly groupsWithSignal: number
  /** Sequences that are trained. */
  readonly sequences: number
  /** Sampled tokens that are trained. */
  readonly tokens: number
  /**
   * Updates between the version that sampled a trained sequence and the one that is trained, on average over the sequences whose
   * version is known; 0 where none is. Missing in older trainings.
   */
  readonly age?: number
  /** Answers of trained sequences that their request held to a form; missing in older trainings. */
  readonly constrained?: number
  /** Sequences sampled by a version that is too old. */
  readonly stale: number
  /** Sequences beyond the first of their sample: rewritten histories, sub-agents, templates that do not append. */
  readonly splits: number
  /** Answers without token ids or logprobs. */
  readonly withoutIds: number
  /** Answers to calls that are not training data. */
  readonly untrainable: number
}

/** What an update did. Null for what a learner does not measure. */
export interface UpdateFigures {
  readonly loss: number | null
  /** Differences between the learner's logprobs of the sampled tokens and the recorded ones, before the update. */
  readonly driftMean: number | null
  readonly driftMax: number | null
  /** Of the distributions that the tokens were sampled from, in nats. */
  readonly entropy: number | null
  /** Fraction of the tokens whose ratio was clipped. */
  readonly clipFraction: number | null
  readonly kl: number | null
  readonly gradNorm: number | null
  /** Sampled tokens that were trained. */
  readonly tokens: number
  readonly sequences: number
  readonly seconds: number
}

/** The start of a process that trains: the first, or one that continues. */
export interface StartRecord {
  readonly kind: 'start'
  /** Steps that were done before. */
  readonly step: number
  /** Planned number of steps, those before included; null when another trainer decides. */
  readonly steps: number | null
  /** Name of the base model; of the trainer when another one trains. */
  readonly model: string
  readonly rollout: string
  /** Null when another trainer has it, like what follows. */
  readonly dataset: string | null
  /** Number of rows in the dataset that may be drawn. */
  readonly rows: number | null
  readonly rowsPerStep: number | null
  readonly attempts: number | null
  /** Those that differ from the defaults, by their keys in `[training]`; missing in older trainings. */
  readonly settings?: SettingValues
  /** ISO 8601, UTC. */
  readonly startedAt: string
}

/** How the batch of a step was made, and what the learner was told. */
export interface StepSettings {
  readonly normalizeAdvantages: boolean
  readonly maxStaleness: number
  readonly maskCutAnswers: boolean
  /** The least reward of an attempt that a warm start trains; missing in other steps. */
  readonly threshold?: number | undefined
  /** Settings of the update, by name. */
  readonly update: Readonly<Record<string, number | string>>
}

/** One update of the policy, with the rollouts that it learned from; a later record of the same run replaces it. */
export interface StepRecord {
  readonly kind: 'step'
  /** From 1. */
  readonly step: number
  readonly phase: 'warm_start' | 'policy_gradient'
  /** Name of the run with the rollouts. */
  readonly run: string
  /** Version of the policy after the step: as before when there was nothing to learn. */
  readonly version: number
  /** Version of the policy that answered the rollouts; where updates ran beside them, most of them. */
  readonly sampledBy: number
  readonly rollouts: StepFigures
  readonly batch: BatchCounts
  /** Null when another trainer updates, or when no sequence had a signal, so that there was no update. */
  readonly update: UpdateFigures | null
  /** An update that no checkpoint has is made again with these; missing in older trainings, and when another trainer updates. */
  readonly settings?: StepSettings
  /** Positions of its rows in the dataset. */
  readonly rows: readonly number[]
  /** Those whose attempts all had the same reward. */
  readonly settledRows: readonly number[]
  readonly alarms: readonly string[]
  /** ISO 8601, UTC. */
  readonly endedAt: string
}

/** An evaluation of held-out rows. */
export interface EvaluationRecord {
  readonly kind: 'evaluation'
  readonly run: string
  /** Number of steps before it. */
  readonly step: number
  readonly version: number
  readonly rollouts: StepFigures
  readonly endedAt: string
}

/** A saved state of the learner. */
export interface CheckpointRecord {
  readonly kind: 'checkpoint'
  /** Number of steps that are in it. */
  readonly step: number
  readonly version: number
  /** Relative to the folder of the training. */
  readonly folder: string
  /** Of its files; missing in older trainings. */
  readonly sha256?: string
}

/** The end of a training that was not interrupted. The same call with more steps continues it. */
export interface TrainingOutcome {
  readonly kind: 'end'
  readonly step: number
  readonly reason: string
  readonly endedAt: string
}

/** A line of `training.jsonl`, the journal of a training. */
export type TrainingRecord =
  | StartRecord
  | StepRecord
  | EvaluationRecord
  | CheckpointRecord
  | TrainingOutcome
