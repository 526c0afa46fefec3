import { BlockList, isIP } from 'node:net'

import { OsmosisError } from '../errors.ts'

/** Which proxy the variables of the environment name for a URL, as the `fetch` of Node.js reads them. */
export interface EnvProxy {
  /** `HTTPS_PROXY`, as it is written. */
  readonly variable: string
  /** What it is set to: usually a URL. */
  readonly value: string
  /** Whether Node.js follows it: by `NODE_USE_ENV_PROXY=1` or `--use-env-proxy`. Without, it does not count. */
  readonly isUsed: boolean
}

/** Undefined without a variable, for what `NO_PROXY` names, and for this machine: its servers call one another. */
export function envProxyFor(url: URL): EnvProxy | undefined {
  const env = environment()
  const kinds = url.protocol === 'https:' ? ['https_proxy', 'http_proxy'] : ['http_proxy']
  // A variable of small letters counts before that of capitals, also when it is empty.
  const variable = kinds
    .map((name) => (env[name] === undefined ? name.toUpperCase() : name))
    .find((name) => Boolean(env[name]))
  if (variable === undefined) return undefined
  if (/^(?:localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname)) return undefined
  if (isExcepted(url, env['no_proxy'] ?? env['NO_PROXY'] ?? '')) return undefined
  return { variable, value: env[variable] ?? '', isUsed: isSwitchedOn(env) }
}

/**
 * The URL of a proxy.
 *
 * @throws OsmosisError with code `invalid_config` when the variable has none
 */
export function proxyUrl({ variable, value }: EnvProxy): URL {
  const url = URL.parse(value)
  if (url !== null && /^(?:https?|socks5?):$/.test(url.protocol)) return url
  throw new OsmosisError(
    'invalid_config',
    `${variable} must be the URL of a proxy, such as http://proxy:3128, and is another text.`,
  )
}

function isSwitchedOn(env: NodeJS.ProcessEnv): boolean {
  if (env['NODE_USE_ENV_PROXY'] === '1') return true
  const options = [...process.execArgv, ...(env['NODE_OPTIONS'] ?? '').split(/\s+/)]
  return options.includes('--use-env-proxy')
}

/** Whether a list such as `localhost, .example.com, *.example.org:8080, [::1]:443, 10.0.0.1-10.0.0.9` names a URL. */
function isExcepted(url: URL, noProxy: string): boolean {
  const host = plainHost(url.hostname)
  const port = url.port || (url.protocol === 'https:' ? '443' : '80')
  return noProxy.split(/[,\s]+/).some((entry) => {
    const [, bracketed, plain = '', ofPort] =
      /^(?:\[(.+)\]|([^:]+|[^:]*:[^:]*:.*))(?::(\d+))?$/.exec(entry) ?? []
    if (ofPort !== undefined && ofPort !== port) return false
    const name = plainHost(bracketed ?? plain)
    if (name === '*') return true
    if (name === '') return false
    const domain = name.replace(/^\*?\./, '')
    if (host.endsWith(`.${domain}`)) return true
    return name.startsWith('*') ? false : host === domain || isInRange(host, name)
  })
}

function isInRange(host: string, range: string): boolean {
  const [first = '', last = '', ...others] = range.split('-')
  const family = isIP(host) === 4 ? 'ipv4' : 'ipv6'
  if (others.length > 0 || isIP(host) === 0) return false
  if (isIP(first) !== isIP(host) || isIP(last) !== isIP(host)) return false
  const list = new BlockList()
  list.addRange(first, last, family)
  return list.check(host, family)
}

function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/(?<=.)\.$/, '')
}

function environment(): NodeJS.ProcessEnv {
  // oxlint-disable-next-line node/no-process-env -- where Node.js reads them
  return process.env
}
