import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'

import { OsmosisError } from '@osmosis/core'

/** Settings for requests to trainers. Times are seconds. */
export interface RolloutClientSettings {
  /** Longest time of one request with its answer, and of `getTools`; 1 to 3600, default 300. */
  readonly timeoutSeconds: number
  /** Retries of a model call; 0 to 10, default 3. */
  readonly maxRetries: number
  /**
   * Retries of the `completed` call; 0 to 10. Default null: as many as fit into ten
   * minutes, so that a restart of the trainer loses no result.
   */
  readonly completeRolloutRetries: number | null
  /** Maximum delay before the first retry, which doubles with each one; 0.1 to 60, default 1. */
  readonly retryBaseDelaySeconds: number
  /** Maximum delay between two attempts; 1 to 300, default 30. */
  readonly retryMaxDelaySeconds: number
  /** Maximum concurrent model calls of one rollout; 1 to 1000, default 100. */
  readonly maxConnections: number
  /** Concurrent calls of one rollout beyond this number close their connection; 1 to 100, default 20. */
  readonly maxKeepaliveConnections: number
}

/** Settings for accepting rollouts. Times are seconds. */
export interface RolloutServerSettings {
  /** Maximum concurrent rollouts; 1 to 10000. Default null: unlimited. */
  readonly maxConcurrentRollouts: number | null
  /** How long an ended rollout is remembered; 60 to 86400, default 3600. */
  readonly recordTtlSeconds: number
  /** Time limit of `run`; 10 to 3600. Default null: unlimited. */
  readonly requestTimeoutSeconds: number | null
}

/** All settings, with values. */
export interface RolloutSettings {
  readonly client: RolloutClientSettings
  readonly server: RolloutServerSettings
  /** Largest metadata of a rollout as Python JSON text. Bytes; 1024 to 104857600, default 1 MiB. */
  readonly maxMetadataSizeBytes: number
}

/** Settings from code; omitted ones come from the environment. */
export interface RolloutSettingsInput {
  readonly client?:
    | { readonly [K in keyof RolloutClientSettings]?: RolloutClientSettings[K] | undefined }
    | undefined
  readonly server?:
    | { readonly [K in keyof RolloutServerSettings]?: RolloutServerSettings[K] | undefined }
    | undefined
  readonly maxMetadataSizeBytes?: number | undefined
}

/**
 * Completes settings, in this order of precedence: code, the environment of the process
 * (`OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS` and so on), a file `.env` in the current folder, the
 * defaults.
 *
 * @param environment - replaces that of the process and `.env`
 * @throws OsmosisError with code `invalid_config` that names the setting or the variable
 */
export function resolveSettings(
  given: RolloutSettingsInput = {},
  environment: Readonly<Record<string, string | undefined>> = readSettingsEnvironment(),
): RolloutSettings {
  const values = new Map<string, number | null>()
  for (const rule of settingRules) values.set(rule.name, resolve(rule, given, environment))
  const pick = (prefix: string): Record<string, number | null> =>
    Object.fromEntries(
      [...values]
        .filter(([name]) => name.startsWith(prefix))
        .map(([name, value]) => [name.slice(prefix.length), value]),
    )
  return {
    client: pick('client.') as unknown as RolloutClientSettings,
    server: pick('server.') as unknown as RolloutServerSettings,
    maxMetadataSizeBytes: values.get('maxMetadataSizeBytes') ?? 0,
  }
}

function resolve(
  rule: SettingRule,
  given: RolloutSettingsInput,
  environment: Readonly<Record<string, string | undefined>>,
): number | null {
  const value = givenValue(rule.name, given)
  if (value === null && rule.fallback === null) return null
  if (value !== undefined) return checked(rule, value, rule.name)
  const text = environment[rule.variable]?.trim()
  return text ? checked(rule, Number(text), rule.variable, text) : rule.fallback
}

function givenValue(name: string, given: RolloutSettingsInput): unknown {
  let value: unknown = given
  for (const key of name.split('.')) value = (value as Record<string, unknown> | undefined)?.[key]
  return value
}

function checked(rule: SettingRule, value: unknown, name: string, shown = String(value)): number {
  const { min, max, whole: isWhole } = rule
  if (
    typeof value === 'number' &&
    value >= min &&
    value <= max &&
    (!isWhole || Number.isInteger(value))
  ) {
    return value
  }
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a ${isWhole ? 'whole ' : ''}number from ${min} to ${max}, got ${shown}.`,
  )
}

/** The range of a setting and its environment variable. */
interface SettingRule {
  /** As in the settings object, e.g. `client.timeoutSeconds`. */
  readonly name: string
  readonly variable: string
  readonly fallback: number | null
  readonly min: number
  readonly max: number
  readonly whole: boolean
}

export const settingRules: readonly SettingRule[] = [
  seconds('client.timeoutSeconds', 300, 1, 3600),
  whole('client.maxRetries', 3, 0, 10),
  whole('client.completeRolloutRetries', null, 0, 10),
  seconds('client.retryBaseDelaySeconds', 1, 0.1, 60),
  seconds('client.retryMaxDelaySeconds', 30, 1, 300),
  whole('client.maxConnections', 100, 1, 1000),
  whole('client.maxKeepaliveConnections', 20, 1, 100),
  whole('server.maxConcurrentRollouts', null, 1, 10_000),
  seconds('server.recordTtlSeconds', 3600, 60, 86_400),
  seconds('server.requestTimeoutSeconds', null, 10, 3600),
  whole('maxMetadataSizeBytes', 1_048_576, 1024, 104_857_600),
]

function seconds(name: string, fallback: number | null, min: number, max: number): SettingRule {
  return { name, variable: variableOf(name), fallback, min, max, whole: false }
}

function whole(name: string, fallback: number | null, min: number, max: number): SettingRule {
  return { ...seconds(name, fallback, min, max), whole: true }
}

/**
 * `client.timeoutSeconds` is read from `OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS`; the variables of
 * delays have the names of the Python SDK, without a unit.
 */
function variableOf(name: string): string {
  const snakeCase = name
    .replace(/(Delay)Seconds$/, '$1')
    .replaceAll(/[A-Z]/g, (letter) => `_${letter}`)
    .replace('.', '_')
  return `OSMOSIS_ROLLOUT_${snakeCase.toUpperCase()}`
}

/**
 * The variables for settings: those of the process, which override those of a file `.env`
 * in the current folder. Names are in upper case. No other code of this package reads the
 * environment.
 */
function readSettingsEnvironment(): Readonly<Record<string, string | undefined>> {
  const variables = new Map<string, string | undefined>()
  // oxlint-disable-next-line node/no-process-env
  for (const source of [readEnvFile(), process.env]) {
    for (const [name, value] of Object.entries(source)) variables.set(name.toUpperCase(), value)
  }
  return Object.fromEntries(variables)
}

function readEnvFile(): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path.resolve('.env'), 'utf8').replace(/^\uFEFF/, ''))
  } catch {
    // Most folders have none.
    return {}
  }
}
