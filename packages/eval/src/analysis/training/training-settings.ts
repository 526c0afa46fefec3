const atLeast0 = { type: 'number', least: 0, must: 'must be a number of at least 0' } as const
const above0 = { type: 'number', above: 0, must: 'must be a positive number' } as const
const positiveInteger = { type: 'integer', least: 1, must: 'must be a positive integer' } as const
/** Of a setting that has no value unless a config names one. */
const none = null as number | null
const boolean = { type: 'boolean', must: 'must be true or false' } as const

/**
 * Keys of `[training]` for how this SDK trains; the hosted platform does not have them. Each has the option of `train()` that it
 * sets, which is one of `update`, of `stopWhen` or of the training itself, or the option of the learner on this machine, and its default.
 */
export const trainingSettings = {
  loss: {
    of: 'update',
    option: 'loss',
    standard: 'dapo',
    rule: {
      type: 'string',
      pattern: /^(?:grpo|dr_grpo|dapo|cispo|gspo)$/,
      must: 'must be grpo, dr_grpo, dapo, cispo or gspo',
    },
  },
  clip_low: {
    of: 'update',
    option: 'clipLow',
    standard: 0.2,
    rule: { type: 'number', least: 0, most: 1, must: 'must be a number from 0 to 1' },
  },
  clip_high: { of: 'update', option: 'clipHigh', standard: 0.28, rule: atLeast0 },
  importance_cap: { of: 'update', option: 'importanceCap', standard: 2, rule: above0 },
  kl: { of: 'update', option: 'kl', standard: 0, rule: atLeast0 },
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
  mask_cut_answers: { of: 'training', option: 'maskCutAnswers', standard: false, rule: boolean },
  lr_schedule: {
    of: 'training',
    option: 'learningRateSchedule',
    standard: 'constant',
    rule: {
      type: 'string',
      pattern: /^(?:constant|linear|cosine)$/,
      must: 'must be constant, linear or cosine',
    },
  },
  lr_warmup_steps: {
    of: 'training',
    option: 'warmupSteps',
    standard: 0,
    rule: { type: 'integer', least: 0, must: 'must be an integer of at least 0' },
  },
  passes: { of: 'update', option: 'epochs', standard: 1, rule: positiveInteger },
  curriculum: { of: 'training', option: 'curriculum', standard: false, rule: boolean },
  stop_at_reward: {
    of: 'stopWhen',
    option: 'reward',
    standard: none,
    rule: { type: 'number', must: 'must be a number' },
  },
  patience: { of: 'stopWhen', option: 'patience', standard: none, rule: positiveInteger },
  max_staleness: {
    of: 'training',
    option: 'maxStaleness',
    standard: 0,
    rule: { type: 'integer', least: 0, most: 1, must: 'must be 0 or 1' },
  },
  precision: {
    of: 'learner',
    option: 'precision',
    standard: 'auto',
    rule: {
      type: 'string',
      pattern: /^(?:auto|float32|bfloat16)$/,
      must: 'must be auto, float32 or bfloat16',
    },
  },
  lora_targets: {
    of: 'learner',
    option: 'loraTargets',
    standard: 'all-linear',
    rule: {
      type: 'string',
      pattern: /^[\w.-]+(?:,[\w.-]+)*$/,
      must: 'must be all-linear, or names of layers with commas between them, such as q_proj,v_proj',
    },
  },
  sampling_batch: { of: 'learner', option: 'batch', standard: none, rule: positiveInteger },
  micro_batch_tokens: {
    of: 'learner',
    option: 'microBatchTokens',
    standard: none,
    rule: positiveInteger,
  },
} as const

/** Their values in a config. */
export type TrainingSettings = {
  readonly [Key in keyof typeof trainingSettings]?:
    | Widened<(typeof trainingSettings)[Key]['standard']>
    | undefined
}

type Widened<T> = T extends null
  ? never
  : T extends string
    ? string
    : T extends number
      ? number
      : boolean

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
export function settingOptions(config: TrainingSettings): {
  readonly update: Readonly<Record<string, unknown>>
  readonly stopWhen: Readonly<Record<string, unknown>>
  readonly learner: Readonly<Record<string, unknown>>
  readonly training: Readonly<Record<string, unknown>>
} {
  const options: Record<'update' | 'stopWhen' | 'learner' | 'training', Record<string, unknown>> = {
    update: {},
    stopWhen: {},
    learner: {},
    training: {},
  }
  for (const [key, { of, option }] of Object.entries(trainingSettings)) {
    const value = config[key as keyof TrainingSettings]
    if (value !== undefined) options[of][option] = value
  }
  return options
}

/** Settings on one line, such as `kl 0.01, loss gspo`. */
export function settingsText(settings: SettingValues): string {
  return Object.entries(settings)
    .map(([key, value]) => `${key} ${String(value)}`)
    .join(', ')
}
