/** Shorter values are words; hiding them would garble every message. */
const shortest = 4
const replacement = '[redacted]'

/** The tokens and secrets a command was trusted with, and their removal from what it prints. */
export class SecretTexts {
  #texts: readonly string[] = []

  /** Hides `texts` from now on. */
  add(...texts: readonly (string | undefined)[]): void {
    const added = texts.filter((text) => text !== undefined && text.length >= shortest)
    // The longest first: one may be the beginning of another.
    this.#texts = [...new Set([...this.#texts, ...(added as string[])])].toSorted(
      (a, b) => b.length - a.length,
    )
  }

  /** `text` without the secrets in it. */
  redact(text: string): string {
    return this.#texts.reduce((rest, secret) => rest.replaceAll(secret, replacement), text)
  }

  /** A JSON value with no secret in any text or key of it. */
  redactValue(value: unknown): unknown {
    if (typeof value === 'string') return this.redact(value)
    if (Array.isArray(value)) return value.map((item) => this.redactValue(item))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [this.redact(key), this.redactValue(item)]),
    )
  }
}
