import type { z } from 'zod'

const maxShownLength = 40

/** The problem of an unknown section. */
export function unknownSection(name: string, known: readonly string[]): string {
  return `${name}: unknown section${suggestion(name, known)}`
}

/** The keys of a section, and the sections of the keys that others have. */
export interface KnownKeys {
  readonly own: readonly string[]
  readonly others?: ReadonlyMap<string, string>
  /** Whether the value of a key is not shown, because it may be a secret. Default: all values are shown. */
  readonly mayBeSecret?: (key: string) => boolean
}

/** The problems of one section, one line each. `issues` must include their input. */
export function sectionProblems(
  section: string,
  { own, others = new Map<string, string>(), mayBeSecret = () => false }: KnownKeys,
  issues: readonly z.core.$ZodIssue[],
): string[] {
  return issues.flatMap((issue) => {
    const place = [section, ...issue.path].join('.')
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => `${place}.${key}: unknown key${keyAdvice(key, own, others)}`)
    }
    if (issue.code === 'invalid_key') {
      return issue.issues.map(({ message }) => `${place}: ${message}`)
    }
    if (issue.path.length === 0) return [`${place}: must be a section, [${section}]`]
    if (issue.input === undefined) return [`${place}: missing`]
    const got = mayBeSecret(String(issue.path[0])) ? typeof issue.input : shown(issue.input)
    return [`${place}: ${issue.message}, got ${got}`]
  })
}

/** A key may also stand in the wrong section. */
function keyAdvice(
  key: string,
  own: readonly string[],
  others: ReadonlyMap<string, string>,
): string {
  if (closestName(key, own) !== undefined) return suggestion(key, own)
  const meant = closestName(key, [...others.keys()])
  const place = meant === undefined ? undefined : others.get(meant)
  return place === undefined ? suggestion(key, own) : `; did you mean ${meant} in [${place}]?`
}

function suggestion(word: string, names: readonly string[]): string {
  const meant = closestName(word, names)
  return meant === undefined ? `; known: ${names.join(', ')}` : `; did you mean ${meant}?`
}

function shown(value: unknown): string {
  // JSON would show infinities and NaN, which TOML has, as null.
  const text = typeof value === 'number' ? String(value) : JSON.stringify(value)
  return text.length > maxShownLength ? `${text.slice(0, maxShownLength - 1)}…` : text
}

/** The name that is closest to `word`; undefined when none is close. */
function closestName(word: string, names: readonly string[]): string | undefined {
  // Up to a third of the word may be wrong.
  let best = Math.max(1, Math.floor(word.length / 3))
  let closest: string | undefined
  for (const name of names) {
    const distance = editDistance(word.toLowerCase(), name.toLowerCase())
    if (distance > best || (distance === best && closest !== undefined)) continue
    best = distance
    closest = name
  }
  return closest
}

/** The number of letters to insert, delete or replace. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (const [index, letter] of Array.from(from).entries()) {
    const next = [index + 1]
    for (const [column, other] of Array.from(to).entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1)
      const deleted = (row[column + 1] ?? 0) + 1
      const inserted = (next[column] ?? 0) + 1
      next.push(Math.min(replaced, deleted, inserted))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
