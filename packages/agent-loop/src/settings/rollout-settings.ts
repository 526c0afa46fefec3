import { OsmosisError } from '@osmosis/core'

import { readSettingsEnvironment, settingRules, type SettingRule } from './setting-rules.ts'

/** How the server talks to trainers. Times are seconds. */
export interface RolloutClientSettings {
  /** Longest time one request may take, its answer included; 1 to 3600, default 300. */
  readonly timeoutSeconds: number
  /** Tries of a model call after the first one; 0 to 10, default 3. */
  readonly maxRetries: number
  /**
   * Tries of the `completed` call after the first one; 0 to 10. Default null: as many as ten
   * minutes have room for, so that a trainer that restarts loses no result.
   */
  readonly completeRolloutRetries: number | null
  /** Longest wait before the first retry, doubling from there; 0.1 to 60, default 1. */
  readonly retryBaseDelaySeconds: number
  /** Longest wait between two tries; 1 to 300, default 30. */
  readonly retryMaxDelaySeconds: number
  /** Most model calls of one rollout concurrently; 1 to 1000, default 100. */
  readonly maxConnections: number
  /** Calls of one rollout beyond so many at a time close their connection; 1 to 100, default 20. */
  readonly maxKeepaliveConnections: number
}

/** How the server takes rollouts. Times are seconds. */
export interface RolloutServerSettings {
  /** Most rollouts running concurrently; 1 to 10000. Default null: unlimited. */
  readonly maxConcurrentRollouts: number | null
  /** How long an ended rollout is remembered; 60 to 86400, default 3600. */
  readonly recordTtlSeconds: number
  /** Longest time `run` may take; 10 to 3600. Default null: unlimited. */
  readonly requestTimeoutSeconds: number | null
}

/** Every setting, with a value. */
export interface RolloutSettings {
  readonly client: RolloutClientSettings
  readonly server: RolloutServerSettings
  /** Largest metadata of a rollout as Python JSON text. Bytes; 1024 to 104857600, default 1 MiB. */
  readonly maxMetadataSizeBytes: number
}

/** Settings that code gives: what is left out comes from the environment. */
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
 * Completes settings: what code says comes first, then the environment of the process
 * (`OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS` and so on), then a file `.env` in the current folder,
 * then the defaults.
 *
 * @param environment - instead of the process's own and `.env`
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
  const said = givenValue(rule.name, given)
  if (said === null && rule.fallback === null) return null
  if (said !== undefined) return checked(rule, said, rule.name)
  const text = environment[rule.variable]?.trim()
  return text ? checked(rule, Number(text), rule.variable, text) : rule.fallback
}

function givenValue(name: string, given: RolloutSettingsInput): unknown {
  let value: unknown = given
  for (const key of name.split('.')) value = (value as Record<string, unknown> | undefined)?.[key]
  return value
}

function checked(rule: SettingRule, value: unknown, name: string, said = String(value)): number {
  const { least, most, whole } = rule
  if (
    typeof value === 'number' &&
    value >= least &&
    value <= most &&
    (!whole || Number.isInteger(value))
  ) {
    return value
  }
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a ${whole ? 'whole ' : ''}number from ${least} to ${most}, got ${said}.`,
  )
}
