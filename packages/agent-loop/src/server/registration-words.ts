import { SecretValues } from '@osmosis/server/internal'

/** Longer than any sentence, shorter than a page. */
const longest = 1000
/** Less than this of a key tells nothing. */
const shortestPiece = 6

/**
 * What the platform says, made fit to be shown: it may repeat the token and the key that it was
 * sent, and anything else.
 */
export class PlatformWords {
  readonly #secrets: readonly string[]
  readonly #values = new SecretValues()

  constructor(...secrets: readonly (string | undefined)[]) {
    this.#secrets = secrets.filter((secret) => secret !== undefined)
    this.#values.add(...secrets)
  }

  /** `text` on one line, without the secrets in it. */
  quote(text: string): string {
    const whole = this.#values.redact(text)
    const line = this.#withoutCutSecret(whole).replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    return line.trim().slice(0, longest)
  }

  /** A long answer arrives cut off, and the cut may go through a secret. */
  #withoutCutSecret(text: string): string {
    for (const secret of this.#secrets) {
      for (let length = secret.length - 1; length >= shortestPiece; length -= 1) {
        if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}[redacted]`
      }
    }
    return text
  }
}
