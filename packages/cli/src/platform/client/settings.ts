import { isLoopback } from '@osmosis/core/http'

import { environment as givenEnvironment } from '../../command/command-context.ts'
import { readEnvFile } from '../../command/environment.ts'
import { PlatformError, wrongUse } from './platform-error.ts'

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
  readonly environment: NodeJS.ProcessEnv
}

/** Variables for which conflicting values could send a login to the wrong platform. */
const guarded = ['OSMOSIS_PLATFORM_URL', 'OSMOSIS_TOKEN', 'OSMOSIS_TOKEN_PLATFORM_URL']

/**
 * Reads the settings of the platform from the environment of the command and an environment file.
 *
 * @param flags - override `OSMOSIS_PLATFORM_URL` and `OSMOSIS_ENV_FILE`
 * @throws PlatformError with code `VALIDATION`, `CONFLICT`, `ENV_TOKEN_PLATFORM_REQUIRED` or
 * `ENV_TOKEN_PLATFORM_MISMATCH`; none repeats a token
 */
export function readPlatformSettings(
  flags: {
    platform?: string | undefined
    envFile?: string | undefined
  } = {},
): PlatformSettings {
  const own = givenEnvironment()
  const file = flags.envFile ?? (own['OSMOSIS_ENV_FILE'] || undefined)
  const fromFile = readEnvFile(file)
  if (fromFile === undefined) {
    throw wrongUse(`The environment file ${file} does not exist.`)
  }
  const environment: NodeJS.ProcessEnv = { ...own }
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
  const said = flags.platform ?? (environment['OSMOSIS_PLATFORM_URL']?.trim() || defaultPlatformUrl)
  const url = normalizePlatformUrl(said, { allowInsecure })
  const environmentToken = environment['OSMOSIS_TOKEN']?.trim() || undefined
  if (environmentToken !== undefined) checkTokenPlatform(url, environment, allowInsecure)
  const tokenStore = toTokenStore(environment['OSMOSIS_TOKEN_STORE']?.trim())
  return { url, environmentToken, tokenStore, environment }
}

function toTokenStore(said: string | undefined): TokenStore {
  if (!said) return 'auto'
  if (said === 'auto' || said === 'keyring' || said === 'file') return said
  throw wrongUse(`OSMOSIS_TOKEN_STORE must be auto, keyring or file, got ${said}.`)
}

/** A token of the environment is only sent to its own platform. */
function checkTokenPlatform(
  url: string,
  environment: NodeJS.ProcessEnv,
  allowInsecure: boolean,
): void {
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
    throw wrongUse(
      'The platform (OSMOSIS_PLATFORM_URL) must be an http or https URL without credentials.',
    )
  }
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !allowInsecure) {
    throw wrongUse(
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
