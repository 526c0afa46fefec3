import { messageIn } from './chat-result.ts'

/**
 * Remembers how the policy wrote its messages. A message is sent back exactly as received, also where
 * JavaScript would write it differently: `1.0` in arguments that were an object would become
 * `1`, and the next prompt would have other tokens than those that were sampled.
 */
export class MessageTexts {
  /** By the text that JavaScript writes; only for messages whose original text differs. */
  readonly #written = new Map<string, string>()

  /**
   * The JSON text of a message.
   *
   * @throws TypeError when it has none
   */
  of(message: object): string {
    const text = JSON.stringify(message) as string | undefined
    if (text === undefined) throw new TypeError('A message has no JSON form.')
    return this.#written.get(text) ?? text
  }

  /**
   * Records how an answer wrote its message, and returns that text.
   *
   * @param answer - the text that `message` was parsed from
   */
  remember(message: object, answer: string): string {
    const text = JSON.stringify(message)
    if (!holdsNumber(message)) return text
    const written = JSON.stringify(messageIn(JSON.parse(answer, keepNumbers)))
    if (written !== text) this.#written.set(text, written)
    return written
  }
}

function holdsNumber(value: unknown): boolean {
  if (typeof value === 'number') return true
  if (typeof value !== 'object' || value === null) return false
  return Object.values(value).some(holdsNumber)
}

function keepNumbers(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source
  if (typeof value !== 'number' || source === undefined || String(value) === source) return value
  // JSON.rawJSON exists since Node.js 21; TypeScript's library for ES2024 lacks it.
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(source)
}
