import { BlockList, isIP } from 'node:net'

import { OsmosisError } from '@osmosis/core'

import type { ServeFlags } from './serve-options.ts'

/** Addresses on which a server can listen, but where no other machine reaches it. */
const unreachable = new BlockList()
unreachable.addSubnet('127.0.0.0', 8)
unreachable.addSubnet('0.0.0.0', 8)
unreachable.addAddress('::', 'ipv6')
unreachable.addAddress('::1', 'ipv6')

/**
 * The host under which others reach the server: the one that was named, else the one it listens
 * on. Nobody outside is asked: they would name the way out of this network, not the way in.
 *
 * @throws OsmosisError with code `invalid_config` when neither can be
 */
export function reachableHost({
  publicHost,
  host,
}: Pick<ServeFlags, 'publicHost' | 'host'>): string {
  if (publicHost !== undefined) return publicHost
  if (!isUnreachable(host)) return host
  throw new OsmosisError(
    'invalid_config',
    `No other machine reaches the server as ${host}. Say with --public-host under which name or address the platform does.`,
  )
}

function isUnreachable(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host.toLowerCase() === 'localhost'
  return unreachable.check(host, family === 6 ? 'ipv6' : 'ipv4')
}
