import dns from 'node:dns'
import { type LookupFunction, isIPv4, isIPv6 } from 'node:net'

import { OsmosisError } from '../errors.ts'

/** The 128 bits of an address; of IPv4 those of its IPv4-mapped form, which leads to the same host. */
type IpAddress = bigint

/** Addresses that share their first bits. */
interface Subnet {
  readonly base: IpAddress
  /** How many bits, of 128. */
  readonly bits: number
}

const mapped = 0xff_ffn << 32n

/** The address of a name that cannot be looked up: in no subnet. */
const nowhere: IpAddress = -1n

/** Parses an address as the system and `URL` write it, with or without a zone; undefined for other text. */
function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return mappedAddress(fromQuad(text))
  const [plain = ''] = text.split('%')
  return isIPv6(plain) ? fromGroups(plain) : undefined
}

/** The IPv4 address of the lower 32 bits. */
function mappedAddress(bits: bigint): IpAddress {
  return mapped | (bits & 0xff_ff_ff_ffn)
}

/** Parses `10.0.0.0/8`, `fc00::/7` or a single address; undefined for anything else. */
function parseSubnet(text: string): Subnet | undefined {
  const [, host = '', length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const base = parseAddress(host)
  const maxBits = isIPv4(host) ? 32 : 128
  const bits = length === undefined ? maxBits : Number(length)
  return base === undefined || bits > maxBits ? undefined : { base, bits: bits + 128 - maxBits }
}

function contains({ base, bits }: Subnet, address: IpAddress): boolean {
  return (address ^ base) >> BigInt(128 - bits) === 0n
}

function fromQuad(text: string): bigint {
  return text.split('.').reduce((bits, part) => (bits << 8n) | BigInt(part), 0n)
}

function fromGroups(text: string): bigint {
  const groups = text.replace(/[\d.]+\.\d+$/, (quad) => {
    const bits = fromQuad(quad)
    return `${(bits >> 16n).toString(16)}:${(bits & 0xff_ffn).toString(16)}`
  })
  const [front = [], back = []] = groups
    .split('::')
    .map((half) => (half === '' ? [] : half.split(':')))
  const zeros = Array<string>(8 - front.length - back.length).fill('0')
  return [...front, ...zeros, ...back].reduce(
    (bits, group) => (bits << 16n) | BigInt(`0x${group}`),
    0n,
  )
}

/** Where a request goes. */
interface Target {
  /** As {@link hostOf} gives it. */
  readonly host: string
  readonly port: number
  /** Undefined while the host is a name that was not looked up. */
  readonly address: IpAddress | undefined
}

/** One entry of `allowedHosts`. */
interface HostPattern {
  /** Names one host, address or subnet: not a wildcard. */
  readonly isExplicit: boolean
  /** Whether it matches the target; for a name that was not looked up, whether it may. */
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

/** The host of a URL in its canonical spelling. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.$/g, '')
}

/** A host name of DNS or of a container. URLs allow more, which would never match. */
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

// A name may have an address in any subnet: the lookup decides.
function subnetRule(subnet: Subnet | undefined): HostPattern | undefined {
  return (
    subnet && {
      isExplicit: true,
      fits: ({ address }) => address === undefined || contains(subnet, address),
    }
  )
}

/** Where an address leads: to the internet, to a private network or this machine, or where no rollout may connect. */
type AddressKind = 'public' | 'private' | 'forbidden'

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
 * Where a server may connect to, for model calls, callbacks and everything else whose address comes from
 * a caller. It never connects to link-local, multicast, unspecified and metadata addresses. A plain object,
 * so that it can be sent to other processes.
 */
export interface EgressOptions {
  /**
   * The only hosts to connect to: `trainer:8080`, `*.example.com`, `10.0.0.5`, `10.0.0.0/8:*`,
   * `[fd00::1]:443`. Without a port any port matches. `*.` matches one or more labels. Subnets and
   * addresses also match names whose address is in them. Default: all.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /**
   * Whether to connect to loopback and private networks; default `allow`. With `refuse` only where
   * `allowedHosts` has the host, the address or its subnet. A wildcard is not enough.
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

const maxVerdicts = 1000

const policies = new WeakMap<EgressOptions, EgressPolicy>()
const everywhere: EgressOptions = {}

/** Decides where a server may connect to. */
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
   * The policy of these options. The same object gives the same policy, so that connections are shared.
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
   * Why a request to `url` is refused, as a clause about "it". Undefined when it is allowed, when the
   * lookup decides, and for a text that is not a URL.
   */
  refusal(url: string | URL): string | undefined {
    const parsed = typeof url === 'string' ? URL.parse(url) : url
    if (parsed === null) return undefined
    const { protocol, host: place } = parsed
    const origin = `${protocol}//${place}`
    if (!this.#verdicts.has(origin)) {
      if (this.#verdicts.size === maxVerdicts) this.#verdicts.clear()
      this.#verdicts.set(origin, this.#judge(targetOf(parsed)))
    }
    return this.#verdicts.get(origin)
  }

  #judge({ host, port }: Pick<Target, 'host' | 'port'>): string | undefined {
    const known = knownAddresses(host).map((address) => this.#refusal({ host, port, address }))
    return known.includes(undefined) ? undefined : known[0]
  }

  /**
   * The lookup for connections to one origin. It returns allowed addresses only, so a connection goes to an
   * address that was checked. Literal addresses are not looked up: {@link EgressPolicy.refusal} decides.
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

  /**
   * Why a request to `url` is refused that a proxy sends, which looks its host up itself. Resolves as
   * {@link EgressPolicy.lookupFor} decides, for a name that is known here. Another name may lead to a private network, and is in
   * no subnet.
   */
  async refusalBehindProxy(url: URL): Promise<string | undefined> {
    const refusal = this.refusal(url)
    const target = targetOf(url)
    if (refusal !== undefined || parseAddress(target.host) !== undefined) return refusal
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    this.lookupFor(url)(target.host, { all: true }, (error) => {
      if (error instanceof EgressRefusal) resolve(error.message)
      else resolve(error ? this.#refusal({ ...target, address: nowhere }) : undefined)
    })
    return promise
  }

  #refusal(target: Target): string | undefined {
    const { address } = target
    const kind =
      address === undefined ? 'public' : address === nowhere ? 'private' : addressKind(address)
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

/** Undefined for a name, whose addresses the lookup finds. */
function knownAddresses(host: string): (IpAddress | undefined)[] {
  if (/(^|\.)localhost$/.test(host)) return [parseAddress('127.0.0.1'), parseAddress('::1')]
  return [parseAddress(host)]
}

function invalid(what: string): OsmosisError {
  return new OsmosisError('invalid_config', `${what}.`)
}
