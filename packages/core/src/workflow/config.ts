import { OsmosisError } from '../errors.ts'
import { type PolicyLimits, policyLimits } from '../policy/answer-limits.ts'
import { isMetadataSchema, type MetadataSchema } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.config')

type ConfigKind = 'workflow' | 'grader'

/** How many executions of one kind may run concurrently in one backend. */
export interface ConcurrencyConfig {
  /** At least 1; unset: unlimited. */
  readonly maxConcurrent?: number
}

/** What every config has; your own keys stand next to these. */
export interface BaseConfig {
  readonly name: string
  readonly description?: string
  readonly concurrency?: ConcurrencyConfig
}

/** What the config of a workflow has besides. */
export interface BaseWorkflowConfig extends BaseConfig {
  /**
   * The shape of the metadata of a row, by zod or any other Standard Schema. A row without metadata
   * is `null`. What it parses is `ctx.metadata`; documents keep what the row says.
   */
  readonly metadata?: MetadataSchema
  /** When an answer of the policy is given up because it stalls or has no end. */
  readonly policyLimits?: PolicyLimits
}

/** How the attempts of a group are waited for. */
export interface GroupSettings {
  /**
   * How long attempts are waited for that have not come yet, from when no other of the group runs. What
   * has come until then is graded. At most a day. Seconds; default 1800.
   */
  readonly waitSeconds?: number
  /** The least attempts with samples that are graded: with fewer, all of them fail. Default: 2. */
  readonly minSize?: number
}

/** What the config of a grader has besides. */
export interface BaseGraderConfig extends BaseConfig {
  /** For a GroupGrader. */
  readonly group?: GroupSettings
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
 * Declares the config of a workflow. Keys of your own are allowed and keep their types. Each
 * rollout gets a copy: plain data is copied deeply, functions and class instances (models, tools)
 * are shared.
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
  return branded('workflow', config)
}

/**
 * Declares the config of a grader; see {@link defineWorkflowConfig}.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function defineGraderConfig<T extends BaseGraderConfig>(config: T): GraderConfig<T> {
  const { waitSeconds, minSize } = groupSettings(config)
  if (!(waitSeconds >= 0 && waitSeconds <= longestWaitSeconds)) {
    throw new OsmosisError(
      'invalid_config',
      `group.waitSeconds of "${config.name}" must be a number of seconds from 0 to ${longestWaitSeconds}, got ${String(waitSeconds)}.`,
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

/** One attempt alone has nothing to be compared with. */
const defaultGroup: Required<GroupSettings> = { waitSeconds: 1800, minSize: 2 }

const longestWaitSeconds = 86_400

/** What the config of a group grader says, with what it leaves open. */
export function groupSettings(config: unknown): Required<GroupSettings> {
  return { ...defaultGroup, ...(config as Partial<BaseGraderConfig> | undefined)?.group }
}

/** What kind of config `value` is; undefined for anything else. */
export function configKind(value: unknown): ConfigKind | undefined {
  return typeof value === 'object' && value !== null && brand in value
    ? (value as { [brand]: ConfigKind })[brand]
    : undefined
}

/** A copy of a config for one rollout: plain data deeply, everything else by reference. */
export function cloneConfig<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => cloneConfig(item)) as T
  if (typeof value !== 'object' || value === null || !isPlainObject(value)) return value
  // Some libraries make plain objects of their schemas, which refer to themselves.
  if (isMetadataSchema(value)) return value
  const copy: Record<PropertyKey, unknown> = {}
  for (const key of Reflect.ownKeys(value)) {
    copy[key] = cloneConfig((value as Record<PropertyKey, unknown>)[key])
  }
  return copy as T
}

function branded<T extends BaseConfig, K extends ConfigKind>(
  kind: K,
  config: T,
): T & { readonly [brand]: K } {
  const verb = `define${kind === 'workflow' ? 'Workflow' : 'Grader'}Config`
  if (typeof config.name !== 'string' || config.name.trim() === '') {
    throw new OsmosisError('invalid_config', `${verb} needs a name: a non-empty string.`)
  }
  const limit = config.concurrency?.maxConcurrent
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1)) {
    throw new OsmosisError(
      'invalid_config',
      `concurrency.maxConcurrent of "${config.name}" must be a whole number of at least 1, got ${String(limit)}. Leave it out for no limit.`,
    )
  }
  return { ...config, [brand]: kind }
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
