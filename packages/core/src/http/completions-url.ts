const suffix = '/chat/completions'

/**
 * The address of chat completions below a base URL: one that already ends in `/chat/completions`
 * is taken as it is, slashes at its end are not, and a query string is kept.
 */
export function completionsUrl(baseUrl: string | URL): URL {
  const url = new URL(baseUrl)
  const path = url.pathname.replace(/\/+$/, '')
  url.pathname = path.endsWith(suffix) ? path : `${path}${suffix}`
  return url
}

/** The other way: without `/chat/completions`, and without slashes at the end of its path. */
export function completionsBaseUrl(url: string | URL): URL {
  const base = new URL(url)
  base.pathname = base.pathname.replace(/(\/+chat\/completions)?\/*$/, '')
  return base
}
