type Version = readonly [major: number, minor: number, patch: number]

/**
 * Whether a version lies in a range of `^`, `~`, `>=`, `<` and exact versions, also several at once.
 * Undefined for ranges that are written in another way. Of a pre-release only its numbers count.
 */
export function satisfies(version: string, range: string): boolean | undefined {
  const given = parsed(version)
  if (given === undefined) return undefined
  const parts = range
    .trim()
    .split(/\s+/)
    .map((part) => satisfiesPart(given, part))
  return parts.includes(undefined) ? undefined : parts.every(Boolean)
}

function satisfiesPart(version: Version, part: string): boolean | undefined {
  const [, operator = '', text = ''] = /^(\^|~|>=|<=|>|<|=)?v?(\d[^|]*)$/.exec(part) ?? []
  const bound = parsed(text)
  if (bound === undefined) return undefined
  const order = compare(version, bound)
  switch (operator) {
    case '^':
      return order >= 0 && compare(version, nextBreaking(bound)) < 0
    case '~':
      return order >= 0 && compare(version, [bound[0], bound[1] + 1, 0]) < 0
    case '>=':
      return order >= 0
    case '<=':
      return order <= 0
    case '>':
      return order > 0
    case '<':
      return order < 0
    default:
      return order === 0
  }
}

function nextBreaking([major, minor, patch]: Version): Version {
  if (major > 0) return [major + 1, 0, 0]
  return minor > 0 ? [0, minor + 1, 0] : [0, 0, patch + 1]
}

function parsed(text: string): Version | undefined {
  const [, major, minor = '0', patch = '0'] =
    /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-+].*)?$/.exec(text) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

function compare(one: Version, other: Version): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2]
}
