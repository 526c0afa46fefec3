import dns from 'node:dns'
import type { LookupFunction } from 'node:net'

import { OsmosisError } from '../../errors.ts'
import { addressKind } from './address-kind.ts'
import { hostOf, type HostPattern, parseHostPattern, type Target } from './host-pattern.ts'
import { type IpAddress, parseAddress } from './ip-address.ts'

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

/** The address of a name that cannot be looked up: in no subnet. */
const nowhere: IpAddress = -1n

const policies = new WeakMap<EgressOptions, EgressPolicy>()
const everywhere: EgressOptions = {}

/** Decides where a server may connect to. */
export class EgressPolicy {
  readonly #allowed: readonly HostPattern[] | undefined
  readonly #refusesPrivate: boolean

  private constructor({ allowedHosts, privateAddresses = 'allow' }: EgressOptions) {
    if (allowedHosts !== undefined && !Array.isArray(allowedHosts)) {
      throw invalid(
        `allowedHosts must be a list of hosts, such as ['trainer:8080', '*.example.com'], got ${JSON.stringify(allowedHosts)}`,
      )
    }
    if (privateAddresses !== 'allow' && privateAddresses !== 'refuse') {
      throw invalid(
        `privateAddresses must be 'allow' or 'refuse', got ${JSON.stringify(privateAddresses)}`,
      )
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
    const target = targetOf(parsed)
    const refusals = knownAddresses(target.host).map((address) =>
      this.#refusal({ ...target, address }),
    )
    return refusals.includes(undefined) ? undefined : refusals[0]
  }

  /**
   * The lookup for connections to one origin. It returns allowed addresses only, so a connection goes to an
   * address that was checked. Literal addresses are not looked up: {@link EgressPolicy.refusal} decides.
   */
  lookupFor(origin: URL): LookupFunction {
    const target = targetOf(origin)
    return (hostname, options, callback) => {
      dns.lookup(hostname, { ...options, all: true }, (error, found) => {
        if (error) return callback(error, [])
        const verdicts = found.map(({ address }) => {
          const parsed = parseAddress(address)
          return parsed === undefined
            ? reasons.forbidden
            : this.#refusal({ ...target, address: parsed })
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
