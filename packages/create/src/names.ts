/** Windows opens a device under each of these names, whatever the extension. */
const devices = /^(con|prn|aux|nul|com\d|lpt\d)$/

/**
 * What is wrong with the name of a rollout; undefined for a good one. It becomes a folder, three
 * files and a value in configs, on any system.
 */
export function rolloutNameProblem(name: string): string | undefined {
  if (!/^[a-z\d](?:[a-z\d-]*[a-z\d])?$/.test(name) || name.length > 64) {
    const suggestion = toRolloutName(name)
    return `The name of a rollout must be 1 to 64 lower-case letters, digits and hyphens, e.g. ${suggestion ?? 'price-check'}; got "${name}".`
  }
  if (devices.test(name)) return `A rollout cannot be called ${name}: Windows has no such folder.`
  return undefined
}

/** The nearest name of a rollout; undefined when nothing is left of a text. */
export function toRolloutName(text: string): string | undefined {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z\d]+/g, '-')
    .replace(/^-/, '')
    .slice(0, 64)
    .replace(/-$/, '')
  return name === '' || devices.test(name) ? undefined : name
}
