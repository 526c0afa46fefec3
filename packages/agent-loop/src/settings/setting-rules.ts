import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'

/** What a setting may be and where it is read from. */
export interface SettingRule {
  /** As in the settings object, e.g. `client.timeoutSeconds`. */
  readonly name: string
  readonly variable: string
  readonly fallback: number | null
  readonly least: number
  readonly most: number
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

function seconds(name: string, fallback: number | null, least: number, most: number): SettingRule {
  return { name, variable: variableOf(name), fallback, least, most, whole: false }
}

function whole(name: string, fallback: number | null, least: number, most: number): SettingRule {
  return { ...seconds(name, fallback, least, most), whole: true }
}

/**
 * `client.timeoutSeconds` is read from `OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS`; the variables of
 * delays, which are those of the Python SDK, do not name their unit.
 */
function variableOf(name: string): string {
  const words = name
    .replace(/(Delay)Seconds$/, '$1')
    .replaceAll(/[A-Z]/g, (letter) => `_${letter}`)
    .replace('.', '_')
  return `OSMOSIS_ROLLOUT_${words.toUpperCase()}`
}

/**
 * The variables that settings are read from: those of the process, before those of a file `.env`
 * in the current folder. Names are in upper case. Nothing else in this package looks at the
 * environment.
 */
export function readSettingsEnvironment(): Readonly<Record<string, string | undefined>> {
  const variables = new Map<string, string | undefined>()
  // oxlint-disable-next-line node/no-process-env
  for (const source of [readEnvFile(), process.env]) {
    for (const [name, value] of Object.entries(source)) variables.set(name.toUpperCase(), value)
  }
  return Object.fromEntries(variables)
}

function readEnvFile(): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path.resolve('.env'), 'utf8'))
  } catch {
    // Most folders have none.
    return {}
  }
}
