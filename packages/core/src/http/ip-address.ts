import { isIPv4, isIPv6 } from 'node:net'

/** The 128 bits of an address. Those of IPv4 are the bits of its IPv4-mapped form: it is one place. */
export type IpAddress = bigint

/** Addresses that begin with the same bits. */
export interface Subnet {
  readonly base: IpAddress
  /** How many bits, of 128. */
  readonly bits: number
}

const mapped = 0xff_ffn << 32n

/** Reads an address as the system and `URL` write them, with or without a zone; undefined for others. */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return mappedAddress(fromQuad(text))
  const [plain = ''] = text.split('%')
  return isIPv6(plain) ? fromGroups(plain) : undefined
}

/** The address of IPv4 that has these 32 bits; higher ones are left out. */
export function mappedAddress(bits: bigint): IpAddress {
  return mapped | (bits & 0xff_ff_ff_ffn)
}

/** Reads `10.0.0.0/8`, `fc00::/7` or a single address; undefined for anything else. */
export function parseSubnet(text: string): Subnet | undefined {
  const [, host = '', length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const base = parseAddress(host)
  const most = isIPv4(host) ? 32 : 128
  const bits = length === undefined ? most : Number(length)
  return base === undefined || bits > most ? undefined : { base, bits: bits + 128 - most }
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
