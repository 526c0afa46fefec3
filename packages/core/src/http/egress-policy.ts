import dns from 'node:dns'
import type { LookupFunction } from 'node:net'

import { OsmosisError } from '../errors.ts'
import { addressKind } from './address-kind.ts'
import { hostOf, parseHostPattern, type HostPattern, type Target } from './host-pattern.ts'
import { parseAddress, type IpAddress } from './ip-address.ts'

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
