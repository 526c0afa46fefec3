import type { AddressInfo, ListenOptions, Server } from 'node:net'

import { errorMessage, OsmosisError } from '@osmosis/core'

/** What the system, and Node.js, say of an address or a port that this process cannot have. */
const unusable = new Set<unknown>([
  'EACCES',
  'EADDRNOTAVAIL',
  'EAFNOSUPPORT',
  'EAI_AGAIN',
  'EINVAL',
  'ENOTFOUND',
  'ERR_SOCKET_BAD_PORT',
])

/** Where a server listens. A port of 0 is any free one. */
export interface ListenAddress extends Pick<ListenOptions, 'backlog'> {
  readonly host: string
  readonly port: number
}

/**
 * Makes a server listen. Resolves with its port.
 *
 * @throws OsmosisError with code `port_in_use` when the address is taken, `invalid_config` for one that cannot be opened
 */
export async function listenOn(server: Server, address: ListenAddress): Promise<number> {
  const { host, port } = address
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  try {
    // Throws for a number that is no port.
    server.listen(address, resolve)
    await promise
  } catch (cause) {
    throw listenError(cause as NodeJS.ErrnoException, host, port)
  } finally {
    server.off('error', reject)
  }
  return (server.address() as AddressInfo).port
}

function listenError(cause: NodeJS.ErrnoException, host: string, port: number): Error {
  if (cause.code === 'EADDRINUSE') {
    return new OsmosisError(
      'port_in_use',
      `Port ${port} of ${host} is used by another program. Stop it, or choose another port; 0 picks a free one.`,
      { cause },
    )
  }
  if (!unusable.has(cause.code)) return cause
  return new OsmosisError(
    'invalid_config',
    `Port ${port} of ${host} cannot be opened: ${errorMessage(cause)}. The host must be an address of this machine, and the port one that this user may open.`,
    { cause },
  )
}
