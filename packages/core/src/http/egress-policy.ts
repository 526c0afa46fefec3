import dns from 'node:dns'
import type { LookupFunction } from 'node:net'

import { OsmosisError } from '../errors.ts'
import {
  contains,
  mappedAddress,
  parseSubnet,
  type IpAddress,
  type Subnet,
  parseAddress,
} from './ip-address.ts'

/** Where a request goes. */
interface Target {
  /** As {@link hostOf} gives it. */
  readonly host: string
  readonly port: number
  /** Undefined as long as the host is a name that was not looked up. */
  readonly address: IpAddress | undefined
}

/** Which hosts somebody named. */
interface HostPattern {
  /** Names one host, address or subnet, and not all that have a suffix. */
  readonly isExplicit: boolean
  /** Whether it names the target; for a name that was not looked up, whether it may. */
  readonly fits: (target: Target) => boolean
}

/**
 * Reads `example.com`, `*.example.com`, `*`, `10.0.0.5`, `10.0.0.0/8`, `[fd00::1]` or `[fd00::/8]`,
 * each with an optional `:port` or `:*`.
 *
 * @throws OsmosisError with code `invalid_config`
 */
function parseHostPattern(text: unknown): HostPattern {
  const [, bracketed, plain, port] =
    /^(?:\[([^\]]+)\]|([^\s:[\]@?#\\%]+))(?::(\*|\d{1,5}))?$/.exec(String(text)) ?? []
  const name = bracketed ?? plain
  const onPort = portRule(port)
  const onHost = name === undefined ? undefined : hostRule(name, bracketed !== undefined)
  if (typeof text !== 'string' || onHost === undefined || onPort === undefined) {
    throw new OsmosisError(
      'invalid_config',
      `An allowed host must be a name, an address or a subnet with an optional port, such as trainer:8080, *.example.com, 10.0.0.0/8:* or [fd00::1]:443, got ${JSON.stringify(text)}.`,
    )
  }
  const { isExplicit, fits } = onHost
  return { isExplicit, fits: (target) => onPort(target.port) && fits(target) }
}

/** The host of a URL in the one form that all its spellings have. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.$/g, '')
}

/** A name as DNS and containers have them; a URL takes more, of which nothing would ever be allowed. */
const hostName = /^\w(?:[\w-]*\w)?(?:\.\w(?:[\w-]*\w)?)*$/

function portRule(text: string | undefined): ((port: number) => boolean) | undefined {
  if (text === undefined || text === '*') return () => true
  const expected = Number(text)
  return expected >= 1 && expected <= 65_535 ? (port) => port === expected : undefined
}

function hostRule(text: string, isBracketed: boolean): HostPattern | undefined {
  if (isBracketed || text.includes('/')) return subnetRule(parseSubnet(text))
  if (text === '*') return { isExplicit: false, fits: () => true }
  const [, wildcard, rest = ''] = /^(\*)?(.*)$/.exec(text) ?? []
  const url = `http://${wildcard ? rest.replace(/^\./, '') : rest}/`
  if (!URL.canParse(url) || (wildcard && !rest.startsWith('.')) || rest.includes('*'))
    return undefined
  const name = hostOf(new URL(url))
  const isAddress = parseAddress(name) !== undefined
  if (!wildcard && isAddress) return subnetRule(parseSubnet(name))
  if (isAddress || !hostName.test(name)) return undefined
  if (wildcard) return { isExplicit: false, fits: ({ host }) => host.endsWith(`.${name}`) }
  return { isExplicit: true, fits: ({ host }) => host === name }
}

// A name may lead into any subnet: its addresses decide, once they are known.
function subnetRule(subnet: Subnet | undefined): HostPattern | undefined {
  return (
    subnet && {
      isExplicit: true,
      fits: ({ address }) => address === undefined || contains(subnet, address),
    }
  )
}

/**
 * What an address leads to: the internet, a network of somebody's own (this machine included), or
 * something that no rollout has any business with.
 */
type AddressKind = 'public' | 'private' | 'forbidden'

/** A kind, or the addresses of IPv4 behind one of IPv6: then the worst of theirs counts. */
type Rule = AddressKind | ((address: IpAddress) => AddressKind)

// The first that contains an address decides.
const rules: readonly (readonly [Subnet, Rule])[] = (
  [
    // Services of clouds that hand out credentials, outside of the link-local range.
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
    // All that is routed on the internet; the rest is local by definition, or not in use.
    ['2000::/3', 'public'],
    ['::/0', 'private'],
  ] satisfies [string, Rule][]
).map(([text, rule]) => [subnetOf(text), rule])

function addressKind(address: IpAddress): AddressKind {
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

/**
 * Where a server may connect to: for model calls, callbacks and everything else whose address comes
 * from a caller. Addresses that are link-local, multicast, unspecified or of a cloud's metadata
 * service are never connected to. A plain object, so that it can be passed to other processes.
 */
export interface EgressOptions {
  /**
   * The only hosts that are connected to: `trainer:8080`, `*.example.com`, `10.0.0.5`,
   * `10.0.0.0/8:*`, `[fd00::1]:443`. Without a port any port will do. `*.` stands for one or more
   * labels. Subnets and addresses also name the hosts that have an address in them. Default: all.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /**
   * Whether loopback and private networks are connected to; default `allow`. With `refuse` only
   * where `allowedHosts` has the host, the address or its subnet, and not by a wildcard.
   */
  readonly privateAddresses?: 'allow' | 'refuse' | undefined
}

const reasons = {
  forbidden: 'it leads to a link-local, multicast, unspecified or metadata address',
  private: 'it leads to a private address, and those are refused',
  unlisted: 'its host is not among the allowed ones',
}

/** Why a connection was not made. */
export class EgressRefusal extends Error {
  override readonly name = 'EgressRefusal'
}

/** So many origins are remembered at most. */
const mostVerdicts = 1000

const policies = new WeakMap<EgressOptions, EgressPolicy>()
const everywhere: EgressOptions = {}

/** The one place that decides where a server may connect to. */
export class EgressPolicy {
  readonly #allowed: readonly HostPattern[] | undefined
  readonly #refusesPrivate: boolean
  /** Of {@link EgressPolicy.refusal}, by origin. */
  readonly #verdicts = new Map<string, string | undefined>()

  private constructor({ allowedHosts, privateAddresses = 'allow' }: EgressOptions) {
    if (allowedHosts !== undefined && !Array.isArray(allowedHosts)) {
      throw invalid('allowedHosts must be a list of hosts')
    }
    if (privateAddresses !== 'allow' && privateAddresses !== 'refuse') {
      throw invalid("privateAddresses must be 'allow' or 'refuse'")
    }
    this.#allowed = allowedHosts?.map(parseHostPattern)
    this.#refusesPrivate = privateAddresses === 'refuse'
  }

  /**
   * The policy of these options; the same for the same object, so that its connections are too.
   *
   * @throws OsmosisError with code `invalid_config`
   */
  static of(options: EgressOptions = everywhere): EgressPolicy {
    const known = policies.get(options)
    if (known !== undefined) return known
    const policy = new EgressPolicy(options)
    policies.set(options, policy)
    return policy
  }

  /**
   * Why a request to `url` is known to be refused, as a clause about "it". Undefined when it is
   * allowed, when only a lookup can tell, and for what is not a URL.
   */
  refusal(url: string | URL): string | undefined {
    const parsed = typeof url === 'string' ? URL.parse(url) : url
    if (parsed === null) return undefined
    const { protocol, host: place } = parsed
    const origin = `${protocol}//${place}`
    if (!this.#verdicts.has(origin)) {
      // Callers name the same few places again and again.
      if (this.#verdicts.size === mostVerdicts) this.#verdicts.clear()
      this.#verdicts.set(origin, this.#judge(targetOf(parsed)))
    }
    return this.#verdicts.get(origin)
  }

  #judge({ host, port }: Pick<Target, 'host' | 'port'>): string | undefined {
    const known = knownAddresses(host).map((address) => this.#refusal({ host, port, address }))
    return known.includes(undefined) ? undefined : known[0]
  }

  /**
   * A lookup for connections to one origin. It gives the addresses that may be connected to, so
   * what was checked is what is connected to, whatever a later lookup would say. It is not asked
   * for a literal address: for those {@link EgressPolicy.refusal} has the last word.
   */
  lookupFor(origin: URL): LookupFunction {
    const { host, port } = targetOf(origin)
    return (hostname, options, callback) => {
      dns.lookup(hostname, { ...options, all: true }, (error, found) => {
        if (error) return callback(error, [])
        const verdicts = found.map(({ address }) => {
          const parsed = parseAddress(address)
          return parsed === undefined
            ? reasons.forbidden
            : this.#refusal({ host, port, address: parsed })
        })
        const allowed = found.filter((_, n) => verdicts[n] === undefined)
        const [first] = allowed
        if (first === undefined) callback(new EgressRefusal(verdicts[0]), [])
        else if (options.all) callback(null, allowed)
        else callback(null, first.address, first.family)
      })
    }
  }

  #refusal(target: Target): string | undefined {
    const { address } = target
    const kind = address === undefined ? 'public' : addressKind(address)
    if (kind === 'forbidden') return reasons.forbidden
    const fitting = this.#allowed?.filter(({ fits }) => fits(target))
    if (fitting?.length === 0) return reasons.unlisted
    if (kind === 'public' || !this.#refusesPrivate) return undefined
    return fitting?.some(({ isExplicit }) => isExplicit) ? undefined : reasons.private
  }
}

function targetOf(url: URL): { host: string; port: number } {
  return { host: hostOf(url), port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80) }
}

/** Undefined stands for what only a lookup can tell. */
function knownAddresses(host: string): (IpAddress | undefined)[] {
  if (/(^|\.)localhost$/.test(host)) return [parseAddress('127.0.0.1'), parseAddress('::1')]
  return [parseAddress(host)]
}

function invalid(what: string): OsmosisError {
  return new OsmosisError('invalid_config', `${what}.`)
}
