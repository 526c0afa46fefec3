import { isIPv4, isIPv6 } from 'node:net'

/** The 128 bits of an address; of IPv4 those of its IPv4-mapped form, which leads to the same host. */
export type IpAddress = bigint

/** Addresses that share their first bits. */
export interface Subnet {
  readonly base: IpAddress
  /** How many bits, of 128. */
  readonly bits: number
}

const mapped = 0xff_ffn << 32n

/** Parses an address as the system and `URL` write it, with or without a zone; undefined for other text. */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return mappedAddress(fromQuad(text))
  const [plain = ''] = text.split('%')
  return isIPv6(plain) ? fromGroups(plain) : undefined
}

/** The IPv4 address of the lower 32 bits. */
export function mappedAddress(bits: bigint): IpAddress {
  return mapped | (bits & 0xff_ff_ff_ffn)
}

/** Parses `10.0.0.0/8`, `fc00::/7` or a single address; undefined for anything else. */
export function parseSubnet(text: string): Subnet | undefined {
  const [, host = '', length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const base = parseAddress(host)
  const maxBits = isIPv4(host) ? 32 : 128
  const bits = length === undefined ? maxBits : Number(length)
  return base === undefined || bits > maxBits ? undefined : { base, bits: bits + 128 - maxBits }
}

export function contains({ base, bits }: Subnet, address: IpAddress): boolean {
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
