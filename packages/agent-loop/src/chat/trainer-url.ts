/** Address of a route of the trainer. A base path is kept, slashes at its end are not. */
export function trainerUrl(serverUrl: string, route: string): string {
  return `${serverUrl.replace(/\/+$/, '')}${route}`
}

/** A rollout id as it can stand in a header: ids are free text, headers are not. */
export function headerSafe(rolloutId: string): string {
  return encodeURIComponent(rolloutId.toWellFormed())
}
