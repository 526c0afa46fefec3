import { OsmosisError } from '@osmosis/core'

/** Whether only programs of this machine can reach a server on this address. */
function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return name === 'localhost' || name === '::1' || /^127(?:\.\d{1,3}){3}$/.test(name)
}

/**
 * @throws OsmosisError with code `invalid_config` when a server without a key would be open to
 * other machines
 */
export function assertGuarded(host: string, requiresKey: boolean): void {
  if (requiresKey || isLoopback(host)) return
  throw new OsmosisError(
    'invalid_config',
    `Refusing to listen on ${host} without an API key: anybody who reaches it could start rollouts. Set apiKey (--api-key-file, OSMOSIS_ROLLOUT_SERVER_API_KEY), listen on 127.0.0.1, or say allowUnauthenticated (--no-auth) if something else guards the server.`,
  )
}

/** The error of a server that cannot listen, as something a person can act on. */
export function toListenError(error: Error & { code?: string }, host: string, port: number): Error {
  if (error.code !== 'EADDRINUSE') return error
  return new OsmosisError(
    'port_in_use',
    `Port ${port} of ${host} is taken by another program. Stop that one, or choose another port; 0 picks a free one.`,
    { cause: error },
  )
}
