import { trainingSettings } from '../analysis/training/training-settings.ts'

/** The two kinds of config that a workspace has, in `configs/<kind>/`. */
export type ConfigKind = 'eval' | 'training'

/** The rule for a value. */
export interface ValueRule {
  /** `string or strings`: a text, or a list of at least one. */
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'strings' | 'string or strings'
  /** The message about any other value. */
  readonly must: string
  readonly required?: true
  /** What to write, for a key that only the platform requires. */
  readonly mandatory?: string
  /** Whether users may write a secret as the value by mistake: messages do not show the value. */
  readonly mayBeSecret?: true
  /** Whether the platform does not have it. */
  readonly isLocal?: true
  /** Of a key that the platform does not have: what to do there. Default: to remove it. */
  readonly onPlatform?: string
  /** Of a string, and of each string in a list. */
  readonly pattern?: RegExp
  /** What a string may be, where `pattern` lists it. */
  readonly choices?: readonly string[]
  readonly least?: number
  readonly most?: number
  /** Exclusive minimum. */
  readonly above?: number
}

/** The keys of a section: these, or `variables` (names of the environment with text), or any. */
export interface SectionRule {
  readonly keys: Readonly<Record<string, ValueRule>> | 'variables' | 'any'
  /** What to write, for a section that only the platform requires. */
  readonly mandatory?: string
}

const text = { type: 'string', pattern: /\S/, must: 'must be a non-empty string' } as const
const positiveInteger = { type: 'integer', least: 1, must: 'must be a positive integer' } as const
const positive = { type: 'number', above: 0, must: 'must be a positive number' } as const
const seconds = {
  type: 'number',
  above: 0,
  must: 'must be a positive number of seconds; omit it to run unbounded',
} as const

const experiment = {
  keys: {
    rollout: {
      type: 'string',
      required: true,
      // No control characters, no slashes, neither `.` nor `..`.
      pattern: /^(?!\.{1,2}$)[^\p{Cc}/\\]+$/u,
      must: 'must be the name of a folder in rollouts/',
    },
    entrypoint: { ...text, required: true },
    model_path: { ...text, required: true },
    dataset: { ...text, required: true },
    branch: { type: 'string', pattern: /^\S+$/, must: 'must be a branch name' },
    commit_sha: {
      type: 'string',
      pattern: /^[0-9a-fA-F]{7,40}$/,
      must: 'must be 7 to 40 hexadecimal digits',
    },
  },
} as const

const secretKeys = {
  required: {
    type: 'strings',
    mayBeSecret: true,
    mandatory: 'write required = [] for none',
    pattern: /^[A-Z][A-Z0-9_]*$/,
    must: 'must be a name in capitals, digits and underscores',
  },
} as const

const otherColumn = {
  type: 'string',
  pattern: /\S/,
  must: 'must be the name of a column of the dataset',
  isLocal: true,
  onPlatform:
    'the platform reads user_prompt, ground_truth, system_prompt and metadata; rename the column in the file',
} as const

const otherColumns = {
  ...otherColumn,
  type: 'string or strings',
  must: 'must be the name of a column of the dataset, or a list of names',
} as const

const columns = {
  keys: { prompt: otherColumn, label: otherColumns, system: otherColumn, metadata: otherColumns },
} as const

const timeouts = { agent_workflow_timeout_s: seconds, grader_timeout_s: seconds } as const

/** The rules of keys that local trainings have. */
type LocalRules = {
  readonly [Key in keyof typeof trainingSettings]: (typeof trainingSettings)[Key]['rule'] & {
    readonly isLocal: true
  }
}
const localRules = Object.fromEntries(
  Object.entries(trainingSettings).map(([key, { rule }]) => [key, { ...rule, isLocal: true }]),
) as unknown as LocalRules

/**
 * The sections and keys that the hosted platform accepts, and those of local trainings, for each kind of config. The platform checks values
 * when a run is submitted; the limits here follow from the meaning of a value.
 */
export const configRules = {
  eval: {
    experiment,
    columns,
    evaluation: {
      keys: {
        limit: { type: 'integer', must: 'must be an integer' },
        n: positiveInteger,
        batch_size: positiveInteger,
        pass_threshold: { type: 'number', must: 'must be a finite number' },
        ...timeouts,
      },
    },
    workflow: { keys: 'any' },
    env: { keys: 'variables' },
    secrets: { keys: secretKeys, mandatory: 'add [secrets] with required = [] for none' },
    advanced: { keys: 'any' },
  },
  training: {
    experiment,
    columns,
    training: {
      keys: {
        lr: positive,
        total_epochs: positiveInteger,
        n_samples_per_prompt: positiveInteger,
        rollout_batch_size: positiveInteger,
        max_prompt_length: positiveInteger,
        max_response_length: positiveInteger,
        ...timeouts,
        ...localRules,
      },
    },
    sampling: {
      keys: {
        rollout_temperature: { type: 'number', least: 0, must: 'must be a number of at least 0' },
        rollout_top_p: {
          type: 'number',
          above: 0,
          most: 1,
          must: 'must be a number above 0, at most 1',
        },
      },
    },
    checkpoints: {
      keys: { eval_interval: positiveInteger, checkpoint_save_freq: positiveInteger },
    },
    workflow: { keys: 'any' },
    env: { keys: 'variables' },
    secrets: { keys: secretKeys },
    advanced: { keys: 'any' },
  },
} as const satisfies Readonly<Record<ConfigKind, Readonly<Record<string, SectionRule>>>>
