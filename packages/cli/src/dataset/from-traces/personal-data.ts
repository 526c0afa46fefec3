import { isIPv4, isIPv6 } from 'node:net'

interface PrivacyRule {
  readonly name: string
  readonly pattern: RegExp
  /** Whether a match is what the rule means. Default: always. */
  readonly holds?: (text: string) => boolean
}

const keys = [
  String.raw`sk-[\w-]{16,200}`,
  String.raw`[sr]k_(?:live|test)_\w{16,200}`,
  String.raw`pk-lf-[\w-]{16,64}`,
  String.raw`A(?:KIA|SIA)[A-Z0-9]{16}`,
  String.raw`gh[pousr]_[A-Za-z0-9]{36,255}`,
  String.raw`github_pat_\w{22,255}`,
  String.raw`glpat-[\w-]{20,255}`,
  String.raw`xox[abeprs]-[A-Za-z0-9-]{10,255}`,
  String.raw`AIza[\w-]{35}`,
  String.raw`hf_[A-Za-z0-9]{30,64}`,
  String.raw`npm_[A-Za-z0-9]{36}`,
  // A signed token (JWT).
  String.raw`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}`,
]

/** In order: a key may contain what looks like a number of a card. Repetitions are bounded, so that time is linear. */
const rules: readonly PrivacyRule[] = [
  {
    name: 'private key',
    pattern:
      /-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[\s\S]{0,20000}?-----END [A-Z ]{0,32}PRIVATE KEY-----/g,
  },
  {
    name: 'api key',
    pattern: new RegExp(String.raw`(?<![\w-])(?:${keys.join('|')})(?![\w-])`, 'g'),
  },
  { name: 'token', pattern: /(?<=\b(?:bearer|basic)\s{1,4})[\w.~+/=-]{16,4000}/gi },
  { name: 'credentials', pattern: /(?<=:\/\/)[^\s/:@]{1,128}:[^\s/@]{1,128}(?=@)/g },
  {
    name: 'email',
    pattern: /(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])/g,
  },
  { name: 'ip address', pattern: /(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)/g, holds: isIPv4 },
  {
    name: 'ip address',
    pattern: /(?<![\w:])(?:[\da-f]{0,4}:){2,7}[\da-f]{0,4}(?![\w:])/gi,
    holds: (text) => text.length > 4 && isIPv6(text),
  },
  { name: 'card', pattern: /(?<![\w.+-])\d(?:[ -]?\d){12,18}(?![\w-])/g, holds: isCardNumber },
  { name: 'phone', pattern: /(?<![\w.+])\+\d[\d ().-]{6,20}\d(?!\w)/g, holds: isPhoneNumber },
  { name: 'phone', pattern: /(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])/g },
]

function isPhoneNumber(text: string): boolean {
  const { length } = text.replaceAll(/\D/g, '')
  return length >= 8 && length <= 15
}

/** By the check digit (Luhn). */
function isCardNumber(text: string): boolean {
  const digits = Array.from(text.replaceAll(/\D/g, ''), Number).toReversed()
  const sum = digits.reduce((all, digit, at) => {
    const doubled = at % 2 === 0 ? digit : digit * 2
    return all + (doubled > 9 ? doubled - 9 : doubled)
  }, 0)
  return sum % 10 === 0 && digits.some((digit) => digit !== 0)
}

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
    this.#rules = [...denied, ...rules]
  }

  /** The text without keys and personal data. */
  text(text: string): string {
    return this.#rules.reduce(
      (before, { name, pattern, holds }) =>
        before.replace(pattern, (found: string) => {
          const isKept = found === '' || holds?.(found) === false
          if (isKept || this.#allowed.some((allowed) => allowed.test(found))) return found
          this.replaced[name] = (this.replaced[name] ?? 0) + 1
          return `[${name}]`
        }),
      text,
    )
  }

  /** Plain data without keys and personal data in its texts and names. */
  data(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value)
    if (Array.isArray(value)) return value.map((part) => this.data(part))
    if (typeof value !== 'object' || value === null) return value
    const fields = Object.entries(value).map(([name, part]) => [this.text(name), this.data(part)])
    return Object.fromEntries(fields) as unknown
  }
}
