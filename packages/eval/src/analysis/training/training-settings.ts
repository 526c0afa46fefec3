const atLeast0 = { type: 'number', least: 0, must: 'must be a number of at least 0' } as const
const above0 = { type: 'number', above: 0, must: 'must be a positive number' } as const
const positiveInteger = { type: 'integer', least: 1, must: 'must be a positive integer' } as const
const boolean = { type: 'boolean', must: 'must be true or false' } as const

/** The rule of a setting that has one of these values. */
function oneOf<const Choices extends readonly [string, ...string[]]>(...choices: Choices) {
  const must = `must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`
  const pattern = new RegExp(`^(?:${choices.join('|')})$`)
  return { type: 'string', choices, pattern, must } as const
}

/** A key of `[training]`. */
export interface TrainingSetting {
  /** What has its option: the `update` or `stopWhen` of `train()`, the training itself, or the learner on this machine. */
  readonly of: 'update' | 'stopWhen' | 'training' | 'learner'
  readonly option: string
  /** The default; null without one. */
  readonly standard: string | number | boolean | null
  /** For its values, whose type follows from it. */
  readonly rule: {
    readonly type: 'string' | 'integer' | 'number' | 'boolean'
    readonly [limit: string]: unknown
  }
  /** Where it runs: in trainings on this machine alone. Default: in every training. */
  readonly runsOn?: 'local'
  /** What it needs that no Tinker service has, for the refusal. Default: the learner on this machine. */
  readonly tinkerLacks?: string
}

/** Keys of `[training]` for how this SDK trains; the hosted platform does not have them. */
export const trainingSettings = {
  loss: {
    of: 'update',
    option: 'loss',
    standard: 'dapo',
    rule: oneOf('grpo', 'dr_grpo', 'dapo', 'cispo', 'gspo'),
  },
  clip_low: {
    of: 'update',
    option: 'clipLow',
    standard: 0.2,
    rule: { type: 'number', least: 0, most: 1, must: 'must be a number from 0 to 1' },
  },
  clip_high: { of: 'update', option: 'clipHigh', standard: 0.28, rule: atLeast0 },
  importance_cap: {
    runsOn: 'local',
    tinkerLacks: 'importance weights',
    of: 'update',
    option: 'importanceCap',
    standard: 2,
    rule: above0,
  },
  kl: {
    runsOn: 'local',
    tinkerLacks: 'penalty',
    of: 'update',
    option: 'kl',
    standard: 0,
    rule: atLeast0,
  },
  minibatches: {
    of: 'update',
    option: 'minibatches',
    standard: 1,
    rule: positiveInteger,
  },
  max_grad_norm: { of: 'update', option: 'maxGradNorm', standard: 1, rule: above0 },
  weight_decay: { of: 'update', option: 'weightDecay', standard: 0, rule: atLeast0 },
  normalize_advantages: {
    of: 'training',
    option: 'normalizeAdvantages',
    standard: true,
    rule: boolean,
  },
  mask_cut_answers: {
    of: 'training',
    option: 'maskCutAnswers',
    standard: false,
    rule: boolean,
  },
  lr_schedule: {
    of: 'training',
    option: 'learningRateSchedule',
    standard: 'constant',
    rule: oneOf('constant', 'linear', 'cosine'),
  },
  lr_warmup_steps: {
    of: 'training',
    option: 'warmupSteps',
    standard: 0,
    rule: { type: 'integer', least: 0, must: 'must be an integer of at least 0' },
  },
  passes: { of: 'update', option: 'epochs', standard: 1, rule: positiveInteger },
  curriculum: {
    of: 'training',
    option: 'curriculum',
    standard: false,
    rule: boolean,
  },
  stop_at_reward: {
    of: 'stopWhen',
    option: 'reward',
    standard: null,
    rule: { type: 'number', must: 'must be a number' },
  },
  patience: {
    of: 'stopWhen',
    option: 'patience',
    standard: null,
    rule: positiveInteger,
  },
  max_staleness: {
    runsOn: 'local',
    of: 'training',
    option: 'maxStaleness',
    standard: 0,
    rule: { type: 'integer', least: 0, most: 1, must: 'must be 0 or 1' },
  },
  precision: {
    runsOn: 'local',
    of: 'learner',
    option: 'precision',
    standard: 'auto',
    rule: oneOf('auto', 'float32', 'bfloat16'),
  },
  lora_targets: {
    runsOn: 'local',
    of: 'learner',
    option: 'loraTargets',
    standard: 'all-linear',
    rule: {
      type: 'string',
      pattern: /^[\w.-]+(?:,[\w.-]+)*$/,
      must: 'must be all-linear, or names of layers with commas between them, such as q_proj,v_proj',
    },
  },
  sampling_batch: {
    runsOn: 'local',
    of: 'learner',
    option: 'batch',
    standard: null,
    rule: positiveInteger,
  },
  micro_batch_tokens: {
    runsOn: 'local',
    of: 'learner',
    option: 'microBatchTokens',
    standard: null,
    rule: positiveInteger,
  },
} as const satisfies Readonly<Record<string, TrainingSetting>>

type Table = typeof trainingSettings

type ValueOf<Rule extends TrainingSetting['rule']> = Rule extends {
  readonly choices: readonly (infer Choice)[]
}
  ? Choice
  : { string: string; boolean: boolean; number: number; integer: number }[Rule['type']]

/** Their values in a config. */
export type TrainingSettings = {
  readonly [Key in keyof Table]?: ValueOf<Table[Key]['rule']> | undefined
}

type OptionsOf<Part> = {
  readonly [
    Key in keyof Table as Table[Key]['of'] extends Part ? Table[Key]['option'] : never
  ]?: ValueOf<Table[Key]['rule']>
}

/** The options of a training that settings set, by what has them. */
export interface SettingOptions {
  readonly update: OptionsOf<'update'>
  readonly stopWhen: OptionsOf<'stopWhen'>
  readonly learner: OptionsOf<'learner'>
  readonly training: OptionsOf<'training'>
}

/** Values of settings by their keys in `[training]`. */
export type SettingValues = Readonly<Record<string, string | number | boolean>>

/** Those of the settings of a training that differ from the defaults. */
export function changedSettings(training: {
  readonly update?: object | undefined
  readonly stopWhen?: object | undefined
  readonly learner?: object | undefined
  readonly [option: string]: unknown
}): SettingValues {
  const { update = {}, stopWhen = {}, learner = {} } = training
  const options = { training, update, stopWhen, learner }
  return Object.fromEntries(
    Object.entries(trainingSettings).flatMap(([key, { of, option, standard }]) => {
      const value = (options[of] as Readonly<Record<string, SettingValues[string] | undefined>>)[
        option
      ]
      return value === undefined || value === standard ? [] : [[key, value]]
    }),
  )
}

/** The options of a training that the keys of a config set. */
export function settingOptions(config: TrainingSettings): SettingOptions {
  const options = { update: {}, stopWhen: {}, learner: {}, training: {} }
  for (const [key, { of, option }] of Object.entries(trainingSettings)) {
    const value = config[key as keyof TrainingSettings]
    if (value !== undefined) Object.assign(options[of], { [option]: value })
  }
  return options
}

/** Settings on one line, such as `kl 0.01, loss gspo`. */
export function settingsText(settings: SettingValues): string {
  return Object.entries(settings)
    .map(([key, value]) => `${key} ${String(value)}`)
    .join(', ')
}
