import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { parseEnv } from 'node:util'

import { PlatformError } from './platform-error.ts'

/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Storage for tokens of new logins: `auto` is the keyring of the system, else the file. */
export type TokenStore = 'auto' | 'keyring' | 'file'

/** Settings of the platform from flags, variables and `.env`. */
export interface PlatformSettings {
  /** Normalised base URL. */
  readonly url: string
  /** The token of `OSMOSIS_TOKEN`. */
  readonly environmentToken: string | undefined
  /** The value of `OSMOSIS_TOKEN_STORE`; default: `auto`. */
  readonly tokenStore: TokenStore
  /** Variables of the process, and those of `.env` that it lacks. */
  readonly environment: Environment
}

/** Variables for which conflicting values could send a login to the wrong platform. */
const guarded = ['OSMOSIS_PLATFORM_URL', 'OSMOSIS_TOKEN', 'OSMOSIS_TOKEN_PLATFORM_URL']

/**
 * Reads the settings of the platform.
 *
 * @throws PlatformError with code `VALIDATION`, `CONFLICT`, `ENV_TOKEN_PLATFORM_REQUIRED` or
 * `ENV_TOKEN_PLATFORM_MISMATCH`; none repeats a token
 */
export async function readPlatformSettings(options: {
  readonly environment: Environment
  /** Folder in which, and above which, `.env` is looked for; base of a relative `envFile`. */
  readonly folder: string
  /** Overrides `OSMOSIS_PLATFORM_URL`. */
  readonly platform?: string | undefined
  /** Replaces the nearest `.env`. */
  readonly envFile?: string | undefined
}): Promise<PlatformSettings> {
  const { environment: own, folder, platform } = options
  const envFile = options.envFile ?? (own['OSMOSIS_ENV_FILE'] || undefined)
  const environment = { ...own }
  const fromFile =
    envFile === undefined ? await nearestEnv(folder) : await namedEnv(folder, envFile)
  for (const [name, value] of Object.entries(fromFile)) {
    const given = own[name]
    if (given === undefined || (given === '' && guarded.includes(name))) environment[name] = value
    else if (guarded.includes(name) && given.trim() !== value?.trim()) {
      throw new PlatformError(
        'CONFLICT',
        `${name} is set to one value in the environment and to another in .env: remove one of them.`,
      )
    }
  }
  const allowInsecure = environment[insecureVariable] === '1'
  const said = platform ?? (environment['OSMOSIS_PLATFORM_URL']?.trim() || defaultPlatformUrl)
  const url = normalizePlatformUrl(said, { allowInsecure })
  const environmentToken = environment['OSMOSIS_TOKEN']?.trim() || undefined
  if (environmentToken !== undefined) checkTokenPlatform(url, environment, allowInsecure)
  const tokenStore = toTokenStore(environment['OSMOSIS_TOKEN_STORE']?.trim())
  return { url, environmentToken, tokenStore, environment }
}

function toTokenStore(said: string | undefined): TokenStore {
  if (!said) return 'auto'
  if (said === 'auto' || said === 'keyring' || said === 'file') return said
  throw new PlatformError(
    'VALIDATION',
    `OSMOSIS_TOKEN_STORE must be auto, keyring or file, got ${said}.`,
  )
}

/** A token of the environment is only sent to its own platform. */
function checkTokenPlatform(url: string, environment: Environment, allowInsecure: boolean): void {
  const said = environment['OSMOSIS_TOKEN_PLATFORM_URL']?.trim()
  if (!said) {
    if (url === defaultPlatformUrl) return
    throw new PlatformError(
      'ENV_TOKEN_PLATFORM_REQUIRED',
      `OSMOSIS_TOKEN is set, and the platform is ${url}: set OSMOSIS_TOKEN_PLATFORM_URL to the platform that gave the token.`,
    )
  }
  const belongs = normalizePlatformUrl(said, { allowInsecure })
  if (belongs === url) return
  throw new PlatformError(
    'ENV_TOKEN_PLATFORM_MISMATCH',
    `OSMOSIS_TOKEN belongs to ${belongs}, and the platform is ${url}.`,
  )
}

async function namedEnv(folder: string, file: string): Promise<Environment> {
  const variables = await readEnv(path.resolve(folder, file))
  if (variables !== undefined) return variables
  throw new PlatformError('VALIDATION', `The environment file ${file} does not exist.`)
}

async function nearestEnv(folder: string): Promise<Environment> {
  for (let at = path.resolve(folder); ; at = path.dirname(at)) {
    const variables = await readEnv(path.join(at, '.env'))
    if (variables !== undefined) return variables
    if (at === path.dirname(at)) return {}
  }
}

async function readEnv(file: string): Promise<Environment | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch {
    return undefined
  }
  return parseEnv(text)
}

/** The default platform. */
export const defaultPlatformUrl = 'https://platform.osmosis.ai'

/** The variable that allows plain HTTP to other machines. */
const insecureVariable = 'OSMOSIS_ALLOW_INSECURE_PLATFORM_URL'

/**
 * The normalised base URL of a platform: lower case, without query, fragment, default port and trailing
 * `/`. Without a scheme it is `http` on this machine, else `https`.
 *
 * @throws PlatformError with code `VALIDATION`, which does not repeat what may hold credentials
 */
function normalizePlatformUrl(
  given: string,
  { allowInsecure = false }: { allowInsecure?: boolean } = {},
): string {
  const text = given.trim()
  const url = parse(text)
  if (url === undefined || url.username !== '' || url.password !== '') {
    throw new PlatformError(
      'VALIDATION',
      'The platform (OSMOSIS_PLATFORM_URL) must be an http or https URL without credentials.',
    )
  }
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !allowInsecure) {
    throw new PlatformError(
      'VALIDATION',
      `The platform ${url.origin} would get the login unencrypted: use https, or set ${insecureVariable}=1.`,
    )
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

function parse(text: string): URL | undefined {
  const hasScheme = /^[a-z][a-z\d+.-]*:\/\//i.test(text)
  const guess = hasScheme ? text : `https://${text}`
  if (text === '' || !URL.canParse(guess)) return undefined
  const url = new URL(guess)
  // Parsed again: only then is the default port of http left out.
  if (!hasScheme && isLoopback(url.hostname)) return new URL(`http://${text}`)
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined
}

/** Whether a host of a URL is this machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host)
}
