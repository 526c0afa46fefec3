const suffix = '/chat/completions'

/**
 * The address of chat completions below a base URL: one that already ends in `/chat/completions`
 * is taken as it is, slashes at its end are not, and a query string is kept.
 */
export function completionsUrl(baseUrl: string | URL): URL {
  const url = new URL(baseUrl)
  const path = url.pathname.replace(/\/+$/, '')
  return withPath(url, path.endsWith(suffix) ? path : `${path}${suffix}`)
}

/** The other way: without `/chat/completions`, and without slashes at the end of its path. */
export function completionsBaseUrl(url: string | URL): URL {
  const base = new URL(url)
  return withPath(base, base.pathname.replace(/(\/+chat\/completions)?\/*$/, ''))
}

/** Setting a part of a URL parses the whole again. */
function withPath(url: URL, path: string): URL {
  if (path !== url.pathname) url.pathname = path
  return url
}
