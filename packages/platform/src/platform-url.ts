import { PlatformError } from './platform-error.ts'

/** The platform when nothing else is said. */
export const defaultPlatformUrl = 'https://platform.osmosis.ai'

/** The variable that allows plain HTTP to other machines. */
export const insecureVariable = 'OSMOSIS_ALLOW_INSECURE_PLATFORM_URL'

/**
 * The one way to write the base URL of a platform: lower case, without query, fragment, default
 * port and `/` at the end. Without a scheme it is `http` on this machine, else `https`.
 *
 * @throws PlatformError with code `VALIDATION`, which does not repeat what may hold credentials
 */
export function normalizePlatformUrl(
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
