import { OsmosisError } from '@osmosis/core'

/** What the environment of a server process says. */
export interface ServerEnvironment {
  readonly port: number
  readonly apiKey: string | undefined
  readonly instanceId: string | undefined
  /** Where rollouts keep files. */
  readonly artifactRoot: string | undefined
}

/**
 * Reads the variables that an operator or the hosting platform sets: `_OSMOSIS_ROLLOUT_PORT`,
 * else `ROLLOUT_PORT`, else `defaultPort` (8000); `OSMOSIS_ROLLOUT_SERVER_API_KEY`;
 * `_OSMOSIS_ROLLOUT_INSTANCE_ID`; `_OSMOSIS_ROLLOUT_ARTIFACT_ROOT`. An empty value counts as
 * unset. Nothing else in this package looks at the environment.
 *
 * @throws OsmosisError with code `invalid_config` when the port is not a port number
 */
export function readServerEnvironment(
  // oxlint-disable-next-line node/no-process-env
  env: Readonly<Record<string, string | undefined>> = process.env,
  defaultPort = 8000,
): ServerEnvironment {
  const name = env['_OSMOSIS_ROLLOUT_PORT'] ? '_OSMOSIS_ROLLOUT_PORT' : 'ROLLOUT_PORT'
  const port = Number(env[name] || defaultPort)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new OsmosisError(
      'invalid_config',
      `${name} must be a port number from 0 to 65535, got ${JSON.stringify(env[name])}.`,
    )
  }
  return {
    port,
    apiKey: env['OSMOSIS_ROLLOUT_SERVER_API_KEY'] || undefined,
    instanceId: env['_OSMOSIS_ROLLOUT_INSTANCE_ID'] || undefined,
    artifactRoot: env['_OSMOSIS_ROLLOUT_ARTIFACT_ROOT'] || undefined,
  }
}
