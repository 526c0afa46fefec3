import { hostname } from 'node:os'

import { OsmosisError } from '@osmosis/core'

import type { OwnershipOptions } from '../work/ownership-log.ts'

/** The settings in the environment of a server process. */
export interface ServerEnvironment {
  readonly port: number
  readonly apiKey: string | undefined
  readonly instanceId: string | undefined
  /** Where rollouts keep files. */
  readonly artifactRoot: string | undefined
  /** Where the server reports which rollouts it has. */
  readonly ownership: OwnershipOptions | undefined
}

/**
 * Reads the variables that an operator or the hosting platform sets: `_OSMOSIS_ROLLOUT_PORT`,
 * else `ROLLOUT_PORT`, else `defaultPort` (8000); `OSMOSIS_ROLLOUT_SERVER_API_KEY`;
 * `_OSMOSIS_ROLLOUT_INSTANCE_ID`; `_OSMOSIS_ROLLOUT_ARTIFACT_ROOT`; `OSMOSIS_ROLLOUT_OTLP_ENDPOINT` with
 * `OSMOSIS_ROLLOUT_SERVER_ID` and `OSMOSIS_ROLLOUT_NAMESPACE`. An empty value counts as unset. No other code of
 * this package reads the environment.
 *
 * @throws OsmosisError with code `invalid_config` when the port is not a port number or the
 * endpoint not a URL
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
    ownership: readOwnership(env),
  }
}

function readOwnership(
  env: Readonly<Record<string, string | undefined>>,
): OwnershipOptions | undefined {
  const endpoint = env['OSMOSIS_ROLLOUT_OTLP_ENDPOINT']
  if (!endpoint) return undefined
  const url = URL.parse(endpoint)
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (url === null || !isHttp || url.username !== '' || url.password !== '') {
    // The value may hold credentials, so it is not repeated.
    throw new OsmosisError(
      'invalid_config',
      'OSMOSIS_ROLLOUT_OTLP_ENDPOINT must be an http or https URL without credentials, such as http://127.0.0.1:4318.',
    )
  }
  const serverName = hostname()
  return {
    endpoint,
    serverId: env['OSMOSIS_ROLLOUT_SERVER_ID'] || env['_OSMOSIS_ROLLOUT_INSTANCE_ID'] || serverName,
    serverName,
    namespace: env['OSMOSIS_ROLLOUT_NAMESPACE'] || undefined,
  }
}
