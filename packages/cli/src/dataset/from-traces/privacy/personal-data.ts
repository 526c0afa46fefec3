import { privacyRules, type PrivacyRule } from './privacy-rules.ts'
import { isAssignedSecret } from './secret-texts.ts'

/** Replaces keys and personal data by placeholders such as `[email]`, and counts what it replaced. */
export class PersonalData {
  /** By the name of the rule. */
  readonly replaced: Record<string, number> = {}
  readonly #rules: readonly PrivacyRule[]
  readonly #allowed: readonly RegExp[]

  /**
   * @param allow - a match of a rule that matches one of these stays
   * @param deny - what matches one of these is replaced too
   */
  constructor(allow: readonly RegExp[], deny: readonly RegExp[]) {
    this.#allowed = allow
    const denied = deny.map(({ source }) => ({ name: 'denied', pattern: new RegExp(source, 'g') }))
    this.#rules = [...denied, ...privacyRules]
  }

  /** The text without keys and personal data. */
  text(text: string): string {
    return this.#rules.reduce(
      (before, { name, pattern, holds }) =>
        before.replace(pattern, (match: string, ...details: unknown[]) => {
          const groups = details.at(-1)
          const [keep = '', at] =
            typeof groups === 'object' && groups !== null
              ? [(groups as { keep?: string }).keep, details.at(-3)]
              : ['', details.at(-2)]
          const found = match.slice(keep.length)
          const end = Number(at) + match.length
          const isFound =
            found !== '' && holds?.(found, keep, before.slice(end, end + 20)) !== false
          return isFound ? keep + this.#replaced(name, found) : match
        }),
      text,
    )
  }

  /** Plain data without keys and personal data in its texts and names. */
  data(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value)
    if (Array.isArray(value)) return value.map((part) => this.data(part))
    if (typeof value !== 'object' || value === null) return value
    const fields = Object.entries(value).map(([name, part]: [string, unknown]) => {
      const isSecret = typeof part === 'string' && isAssignedSecret(part, `${name}: "`, '')
      return [this.text(name), isSecret ? this.#replaced('secret', part) : this.data(part)]
    })
    return Object.fromEntries(fields) as unknown
  }

  #replaced(name: string, found: string): string {
    if (this.#allowed.some((allowed) => allowed.test(found))) return found
    this.replaced[name] = (this.replaced[name] ?? 0) + 1
    return `[${name}]`
  }
}
