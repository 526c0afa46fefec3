import { contains, parseAddress, parseSubnet } from './ip-address.ts'

const ranges = ['127.0.0.0/8', '::1'].flatMap((text) => parseSubnet(text) ?? [])

/**
 * Whether a host is this machine, under a name or an address that other machines cannot use for it.
 *
 * @param host - the host of a URL, or an address without brackets
 */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  const address = parseAddress(name)
  if (address === undefined) return name === 'localhost'
  return ranges.some((range) => contains(range, address))
}
