/** A place of a Redis or a Sentinel. */
export interface RedisHost {
  /** A name or an IP address, one of version 6 without brackets. */
  readonly host: string
  readonly port: number
}

/** Where the Redis of a queue is, and how to log in. */
export interface RedisAddress {
  /** Whether connections use TLS (`rediss`). */
  readonly tls: boolean
  /** The Redis, or the Sentinels that know where it is. */
  readonly hosts: readonly [RedisHost, ...RedisHost[]]
  /** The name under which Sentinels know the primary; undefined: the host is the Redis. */
  readonly name: string | undefined
  /** Undefined: the user `default`. */
  readonly user: string | undefined
  /** Undefined where the address has none, or an empty one. */
  readonly password: string | undefined
  /** Number of the database. */
  readonly database: number
}

/** What an address of a Redis looks like. */
const redisAddressForm =
  'redis://host:6379, redis://user:password@host:6379/0, rediss:// for a Redis with TLS, or redis+sentinel://host:26379,host:26379/name for the primary that Sentinels know by a name'

const defaultPorts = { redis: 6379, sentinel: 26_379 } as const
const hostForm = String.raw`(?:\[[\d:.a-f]+\]|[^\s:/?#[\],]+)(?::\d{1,5})?`
const places = {
  redis: new RegExp(String.raw`^(${hostForm})(?:/(?<database>\d{0,9}))?$`, 'i'),
  sentinel: new RegExp(
    String.raw`^(${hostForm}(?:,${hostForm})*)/(?<name>[\w.-]+)(?:/(?<database>\d{0,9}))?$`,
    'i',
  ),
} as const
const hostsWithParameter = new RegExp(
  String.raw`^${hostForm}(?:,${hostForm})*(?:/(?:\d*|[\w.-]+/?\d*))?\?([\w.-]+)`,
  'i',
)

/**
 * Reads the address of a Redis. The password is everything between the first colon after the scheme and user and the last
 * `@`, so that it may contain every character; `%2F` and its like are characters in it, and a `%` that begins none is
 * itself, as the URL standard decodes (https://url.spec.whatwg.org/#percent-decode).
 *
 * @returns the address, or what is wrong with it in words that follow "The address"; no word is a piece of the login
 */
export function parseRedisAddress(text: string): RedisAddress | string {
  const [, scheme, sentinel, rest = ''] = /^(rediss?)(\+sentinel)?:\/\/(.*)$/s.exec(text) ?? []
  if (scheme === undefined) return `is not of the form ${redisAddressForm}`
  const kind = sentinel === undefined ? 'redis' : 'sentinel'
  const at = rest.lastIndexOf('@')
  const [user, password] = at === -1 ? [] : loginIn(rest.slice(0, at))
  const place = rest.slice(at + 1)
  const found = places[kind].exec(place)
  if (found === null) return fault(place, kind)
  const hosts = (found[1] ?? '').split(',').map((one) => hostIn(one, defaultPorts[kind]))
  const [first, ...others] = hosts
  const wrong = hosts.find(({ port }) => port < 1 || port > 65_535)
  if (first === undefined || wrong !== undefined)
    return `has the port ${wrong?.port}, which is none`
  const { name, database = '' } = found.groups ?? {}
  return {
    tls: scheme === 'rediss',
    hosts: [first, ...others],
    name,
    user: user === '' ? undefined : user,
    password: password === '' ? undefined : password,
    database: Number(database),
  }
}

function loginIn(login: string): [user: string, password: string] {
  const colon = login.indexOf(':')
  const [user, password] =
    colon === -1 ? [login, ''] : [login.slice(0, colon), login.slice(colon + 1)]
  return [percentDecoded(user), percentDecoded(password)]
}

function hostIn(text: string, defaultPort: number): RedisHost {
  const [, host = '', port = String(defaultPort)] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? []
  return { host: host.replaceAll(/^\[|\]$/g, ''), port: Number(port) }
}

function percentDecoded(text: string): string {
  const bytes = Buffer.from(
    Buffer.from(text, 'utf8')
      .toString('latin1')
      .replaceAll(/%([\da-f]{2})/gi, (_, code: string) => String.fromCodePoint(parseInt(code, 16))),
    'latin1',
  )
  return bytes.toString('utf8')
}

/** What is wrong behind the login. Only the name of a parameter behind hosts is repeated: the rest might be of a login. */
function fault(place: string, kind: keyof typeof places): string {
  const [, parameter] = hostsWithParameter.exec(place) ?? []
  const what =
    parameter !== undefined
      ? `has the parameter "${parameter}", and takes none`
      : kind === 'redis'
        ? 'has a part that is no host, no port and no number of a database'
        : 'has a part that is no list of Sentinels, no name of their primary and no number of a database'
  return `${what}: write ${redisAddressForm}`
}

/** Writes an address so that {@link parseRedisAddress} reads it again. What should not be seen has to be left out of it before. */
export function redisAddressText({ tls, hosts, name, database, ...login }: RedisAddress): string {
  const { user = '', password = '' } = login
  const before = `${encodeURIComponent(user)}${password === '' ? '' : `:${encodeURIComponent(password)}`}`
  const written = hosts.map(
    ({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`,
  )
  return (
    `${tls ? 'rediss' : 'redis'}${name === undefined ? '' : '+sentinel'}://` +
    `${before === '' ? '' : `${before}@`}${written.join(',')}` +
    `${name === undefined ? '' : `/${name}`}${database === 0 ? '' : `/${database}`}`
  )
}

/** The address for a reader who need not know who logs in. */
export function redisPlace(address: RedisAddress): string {
  return redisAddressText({ ...address, user: undefined, password: undefined })
}
