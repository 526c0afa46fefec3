import { OsmosisError } from '../../errors.ts'
import { contains, type IpAddress, parseAddress, parseSubnet, type Subnet } from './ip-address.ts'

/** Where a request goes. */
export interface Target {
  /** As {@link hostOf} gives it. */
  readonly host: string
  readonly port: number
  /** Undefined while the host is a name that was not looked up. */
  readonly address: IpAddress | undefined
}

/** One entry of `allowedHosts`. */
export interface HostPattern {
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
export function parseHostPattern(text: unknown): HostPattern {
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
export function hostOf(url: URL): string {
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
