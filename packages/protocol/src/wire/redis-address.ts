/** Where the Redis of a queue is, and how to log in. */
export interface RedisAddress {
  /** Whether connections use TLS (`rediss`). */
  readonly tls: boolean
  /** A name or an IP address, one of version 6 without brackets. */
  readonly host: string
  readonly port: number
  /** Undefined: the user `default`. */
  readonly user: string | undefined
  /** Undefined where the address has none, or an empty one. */
  readonly password: string | undefined
  /** Number of the database. */
  readonly database: number
}

/** What an address of a Redis looks like. */
const redisAddressForm =
  'redis://host:6379, redis://user:password@host:6379/0, or rediss:// for a Redis with TLS'

const defaultPort = 6379

/**
 * Reads the address of a Redis. The password is everything between the first colon after the scheme and user and the last
 * `@`, so that it may contain every character; `%2F` and its like are characters in it, and a `%` that begins none is
 * itself, as the URL standard decodes (https://url.spec.whatwg.org/#percent-decode).
 *
 * @returns the address, or what is wrong with it in words that follow "The address"; no word is a piece of the login
 */
export function parseRedisAddress(text: string): RedisAddress | string {
  const [, scheme = '', rest = ''] = /^(rediss?):\/\/(.*)$/s.exec(text) ?? []
  if (scheme === '') return `is not of the form ${redisAddressForm}`
  const at = rest.lastIndexOf('@')
  const [user, password] = at === -1 ? [] : loginIn(rest.slice(0, at))
  const place = rest.slice(at + 1)
  const found = /^(\[[\d:.a-f]+\]|[^\s:/?#[\]]+)(?::(\d{1,5}))?(?:\/(\d{0,9}))?$/i.exec(place)
  if (found === null) return fault(place)
  const [, host = '', port = String(defaultPort), database = ''] = found
  if (Number(port) < 1 || Number(port) > 65_535) return `has the port ${port}, which is none`
  return {
    tls: scheme === 'rediss',
    host: host.replaceAll(/^\[|\]$/g, ''),
    port: Number(port),
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

function percentDecoded(text: string): string {
  const bytes = Buffer.from(
    Buffer.from(text, 'utf8')
      .toString('latin1')
      .replaceAll(/%([\da-f]{2})/gi, (_, code: string) => String.fromCodePoint(parseInt(code, 16))),
    'latin1',
  )
  return bytes.toString('utf8')
}

/** What is wrong behind the login. Only the name of a parameter behind a host is repeated: the rest might be of a login. */
function fault(place: string): string {
  const [, name] = /^[^\s:/?#[\]]+(?::\d{1,5})?(?:\/\d*)?\?([\w.-]+)/.exec(place) ?? []
  const what =
    name === undefined
      ? 'has a part that is no host, no port and no number of a database'
      : `has the parameter "${name}", and takes none`
  return `${what}: write ${redisAddressForm}`
}

/** Writes an address so that {@link parseRedisAddress} reads it again. What should not be seen has to be left out of it before. */
export function redisAddressText({ tls, host, port, database, ...login }: RedisAddress): string {
  const { user = '', password = '' } = login
  const before = `${encodeURIComponent(user)}${password === '' ? '' : `:${encodeURIComponent(password)}`}`
  const name = host.includes(':') ? `[${host}]` : host
  return (
    `${tls ? 'rediss' : 'redis'}://${before === '' ? '' : `${before}@`}${name}:${port}` +
    (database === 0 ? '' : `/${database}`)
  )
}

/** The address for a reader who need not know who logs in. */
export function redisPlace(address: RedisAddress): string {
  return redisAddressText({ ...address, user: undefined, password: undefined })
}
