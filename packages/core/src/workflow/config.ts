import { OsmosisError } from '../errors.ts'
import { type PolicyLimits, policyLimits } from '../policy/answer/answer-limits.ts'
import { isMetadataSchema, type MetadataSchema } from './metadata-schema.ts'
import { assertRolloutLimits, type RolloutLimits } from './rollout-limits.ts'

const brand = Symbol.for('osmosis.config')

type ConfigKind = 'workflow' | 'grader'

/** How many executions of one kind may run concurrently in one backend. */
export interface ConcurrencyConfig {
  /** At least 1; default: unlimited. */
  readonly maxConcurrent?: number
}

/** The fields of every config. You may add your own. */
export interface BaseConfig {
  readonly name: string
  readonly description?: string
  readonly concurrency?: ConcurrencyConfig
}

/** The fields of a workflow's config. */
export interface BaseWorkflowConfig extends BaseConfig {
  /**
   * The shape of a row's metadata, as a schema of zod or another Standard Schema library. A row without
   * metadata is `null`. The parsed value is `ctx.metadata`; stored documents have the original one.
   */
  readonly metadata?: MetadataSchema
  /** Limits on an answer of the policy that stalls or does not end. */
  readonly policyLimits?: PolicyLimits
  /** Limits on a whole rollout. */
  readonly rolloutLimits?: RolloutLimits
  /**
   * What happens to a rollout that its framework ended because of what the policy did: a limit of turns, a refusal, an
   * answer of a wrong form. `grade` the samples so far, or `fail` the rollout. Default: `grade`.
   */
  readonly policyFaults?: 'grade' | 'fail'
}

/** When a group is graded. */
export interface GroupSettings {
  /**
   * How long to wait for missing attempts while no attempt of the group runs. Then the others are graded. At
   * most a day. Seconds; default 1800.
   */
  readonly waitSeconds?: number
  /** Least number of attempts with samples. With fewer, all attempts of the group fail. Default: 2. */
  readonly minSize?: number
}

/** The fields of a grader's config. */
export interface BaseGraderConfig extends BaseConfig {
  /** For a GroupGrader. */
  readonly group?: GroupSettings
  /**
   * The labels that the grader can use, as a schema; `numericLabel()` of `@osmosis/core/scores` is the one of `numeric`. A
   * row without a label is `null`. Evaluations and trainings check their rows before anything runs; a server fails
   * a rollout whose label does not fit before user code runs.
   */
  readonly label?: MetadataSchema
}

/** A config made by {@link defineWorkflowConfig}. */
export type WorkflowConfig<T extends BaseWorkflowConfig = BaseWorkflowConfig> = T & {
  readonly [brand]: 'workflow'
}

/** A config made by {@link defineGraderConfig}. */
export type GraderConfig<T extends BaseGraderConfig = BaseGraderConfig> = T & {
  readonly [brand]: 'grader'
}

/**
 * Declares the config of a workflow. You may add fields of your own. Each rollout gets a copy: plain data is
 * copied deeply, functions and class instances (models, tools) are shared.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function defineWorkflowConfig<T extends BaseWorkflowConfig>(config: T): WorkflowConfig<T> {
  if (config.metadata !== undefined && !isMetadataSchema(config.metadata)) {
    throw new OsmosisError(
      'invalid_config',
      `metadata of "${config.name}" must be a schema of the rows' metadata, e.g. z.object({ … }) of zod 4. Give data of your own another name.`,
    )
  }
  policyLimits(`"${config.name}"`, config.policyLimits)
  assertRolloutLimits(`"${config.name}"`, config.rolloutLimits)
  const { policyFaults = 'grade' } = config
  if (policyFaults !== 'grade' && policyFaults !== 'fail') {
    throw new OsmosisError(
      'invalid_config',
      `policyFaults of "${config.name}" must be grade or fail, got ${JSON.stringify(policyFaults)}.`,
    )
  }
  return branded('workflow', config)
}

/**
 * Declares the config of a grader; see {@link defineWorkflowConfig}.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function defineGraderConfig<T extends BaseGraderConfig>(config: T): GraderConfig<T> {
  if (config.label !== undefined && !isMetadataSchema(config.label)) {
    throw new OsmosisError(
      'invalid_config',
      `label of "${config.name}" must be a schema of the rows' labels, e.g. numericLabel(). Give data of your own another name.`,
    )
  }
  const { waitSeconds, minSize } = groupSettings(config)
  if (!(waitSeconds >= 0 && waitSeconds <= maxWaitSeconds)) {
    throw new OsmosisError(
      'invalid_config',
      `group.waitSeconds of "${config.name}" must be a number of seconds from 0 to ${maxWaitSeconds}, got ${String(waitSeconds)}.`,
    )
  }
  if (!(Number.isInteger(minSize) && minSize >= 1)) {
    throw new OsmosisError(
      'invalid_config',
      `group.minSize of "${config.name}" must be a whole number of at least 1, got ${String(minSize)}.`,
    )
  }
  return branded('grader', config)
}

const defaultGroup: Required<GroupSettings> = { waitSeconds: 1800, minSize: 2 }

const maxWaitSeconds = 86_400

/** The group settings of a grader's config, with defaults. */
export function groupSettings(config: unknown): Required<GroupSettings> {
  return { ...defaultGroup, ...(config as Partial<BaseGraderConfig> | undefined)?.group }
}

/**
 * How many executions a config allows to run concurrently; null is unlimited.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function configuredSlots({ name, concurrency }: BaseConfig): number | null {
  const { maxConcurrent: limit } = concurrency ?? {}
  if (limit === undefined) return null
  if (Number.isInteger(limit) && limit >= 1) return limit
  throw new OsmosisError(
    'invalid_config',
    `concurrency.maxConcurrent of "${name}" must be a whole number of at least 1, got ${String(limit)}. Leave it out for no limit.`,
  )
}

/** The kind of a config; undefined for other values. */
export function configKind(value: unknown): ConfigKind | undefined {
  return typeof value === 'object' && value !== null && brand in value
    ? (value as { [brand]: ConfigKind })[brand]
    : undefined
}

/** Copies a config, or a part of a row, for one rollout: plain data deeply, everything else by reference. */
export function cloneConfig<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => cloneConfig(item)) as T
  if (typeof value !== 'object' || value === null || !isPlainObject(value)) return value
  // Schemas of some libraries are plain objects that refer to themselves.
  if (isMetadataSchema(value)) return value
  // Not by assignments: a key of rows may be __proto__.
  const fields = Reflect.ownKeys(value).map(
    (key) => [key, cloneConfig((value as Record<PropertyKey, unknown>)[key])] as const,
  )
  return Object.fromEntries(fields) as T
}

function branded<T extends BaseConfig, K extends ConfigKind>(
  kind: K,
  config: T,
): T & { readonly [brand]: K } {
  const verb = `define${kind === 'workflow' ? 'Workflow' : 'Grader'}Config`
  if (typeof config.name !== 'string' || config.name.trim() === '') {
    throw new OsmosisError('invalid_config', `${verb} needs a name: a non-empty string.`)
  }
  configuredSlots(config)
  return { ...config, [brand]: kind }
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
