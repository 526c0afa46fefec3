/** `[experiment]`: what is evaluated, with the files it means. */
export interface ExperimentConfig {
  readonly rollout: string
  readonly entrypoint: string
  readonly modelPath: string
  readonly dataset: string
  readonly branch: string | null
  readonly commitSha: string | null
  /** `<workspace>/rollouts/<rollout>`; absolute. */
  readonly rolloutFolder: string
  /** Inside `rolloutFolder`; absolute. */
  readonly entrypointFile: string
  /** Absolute. */
  readonly datasetFile: string
}

/** `[evaluation]`: how it is evaluated. */
export interface EvaluationConfig {
  /** How many rows of the dataset. Null: all. */
  readonly limit: number | null
  /** Attempts per row. Default: 1. */
  readonly n: number
  /** How many rollouts may run at once. Null: as many as the rollout server takes. */
  readonly batchSize: number | null
  /** The least reward of a passed attempt. Default: 1. */
  readonly passThreshold: number
  /** Seconds. Null: unbounded. */
  readonly agentWorkflowTimeoutSeconds: number | null
  /** Seconds. Null: unbounded. */
  readonly graderTimeoutSeconds: number | null
}

/** A checked eval config. */
export interface EvalConfig {
  /** The file it was read from; absolute. */
  readonly path: string
  /** The nearest folder above the config that has `rollouts/` and `data/`; absolute. */
  readonly workspaceRoot: string
  readonly experiment: ExperimentConfig
  readonly evaluation: EvaluationConfig
  /** `[env]`: plain variables for the rollout server. */
  readonly env: Readonly<Record<string, string>>
  /** `[secrets] required`: names of variables that must have a value. */
  readonly requiredSecrets: readonly string[]
  /** `[advanced]`, unchecked. */
  readonly advanced: Readonly<Record<string, unknown>>
  /** What the hosted platform would refuse, although a local run does not; a line each. */
  readonly platformProblems: readonly string[]
}
