import { contains, type IpAddress, mappedAddress, parseSubnet, type Subnet } from './ip-address.ts'

/** Where an address leads: to the internet, to a private network or this machine, or where no rollout may connect. */
export type AddressKind = 'public' | 'private' | 'forbidden'

/** A kind, or the strictest kind of the IPv4 addresses inside an IPv6 address. */
type Rule = AddressKind | ((address: IpAddress) => AddressKind)

// The first range that contains an address decides.
const rules: readonly (readonly [Subnet, Rule])[] = (
  [
    // Metadata services of clouds, which issue credentials, outside of the link-local range.
    ['100.100.100.200', 'forbidden'], // Alibaba
    ['192.0.0.192', 'forbidden'], // Oracle
    ['168.63.129.16', 'forbidden'], // Azure
    ['fd00:ec2::/32', 'forbidden'], // Amazon
    ['fd20:ce::254', 'forbidden'], // Google
    ['fd00:c1::a9fe:a9fe', 'forbidden'], // Oracle
    ['fd00:42::42', 'forbidden'], // Scaleway
    // "This network", which connects to this machine; link-local, multicast, reserved, broadcast.
    ['0.0.0.0/8', 'forbidden'],
    ['169.254.0.0/16', 'forbidden'],
    ['224.0.0.0/3', 'forbidden'],
    ['fe80::/10', 'forbidden'],
    ['ff00::/8', 'forbidden'],

    ['10.0.0.0/8', 'private'],
    ['100.64.0.0/10', 'private'],
    ['127.0.0.0/8', 'private'],
    ['172.16.0.0/12', 'private'],
    ['192.168.0.0/16', 'private'],
    // Protocols, documentation, the former relays of 6to4, benchmarks.
    ['192.0.0.0/24', 'private'],
    ['192.0.2.0/24', 'private'],
    ['192.88.99.0/24', 'private'],
    ['198.18.0.0/15', 'private'],
    ['198.51.100.0/24', 'private'],
    ['203.0.113.0/24', 'private'],
    ['0.0.0.0/0', 'public'],

    ['::1', 'private'],
    // IPv4 inside IPv6: compatible, translated, NAT64, 6to4, Teredo (its server, and its client inverted).
    ['::/96', (address) => kindOfIPv4(address)],
    ['::ffff:0:0:0/96', (address) => kindOfIPv4(address)],
    ['64:ff9b::/96', (address) => kindOfIPv4(address)],
    ['64:ff9b:1::/48', (address) => worst('private', kindOfIPv4(address))],
    ['2002::/16', (address) => kindOfIPv4(address >> 80n)],
    ['2001::/32', (address) => worst('private', kindOfIPv4(address >> 64n), kindOfIPv4(~address))],
    ['2001:db8::/32', 'private'],
    ['3fff::/20', 'private'],
    // Everything that is routed on the internet; the rest is local or unassigned.
    ['2000::/3', 'public'],
    ['::/0', 'private'],
  ] satisfies [string, Rule][]
).map(([text, rule]) => [subnetOf(text), rule])

export function addressKind(address: IpAddress): AddressKind {
  const rule = rules.find(([range]) => contains(range, address))?.[1] ?? 'forbidden'
  return typeof rule === 'function' ? rule(address) : rule
}

function kindOfIPv4(bits: bigint): AddressKind {
  return addressKind(mappedAddress(bits))
}

function worst(...kinds: AddressKind[]): AddressKind {
  if (kinds.includes('forbidden')) return 'forbidden'
  return kinds.includes('private') ? 'private' : 'public'
}

function subnetOf(text: string): Subnet {
  const parsed = parseSubnet(text)
  if (parsed === undefined) throw new TypeError(`${text} is not a subnet.`)
  return parsed
}
