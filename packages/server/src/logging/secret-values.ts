import { LRUCache } from 'lru-cache'

/** Shorter values are words rather than keys; hiding them would garble what is said. */
const shortestSecret = 6
const replacement = '[redacted]'

/**
 * The keys this server was trusted with, and their removal from text. By value: a key also turns
 * up where no field name announces it, such as in the message of somebody else's error.
 */
export class SecretValues {
  readonly #uses = new Map<string, number>()
  // What a rollout leaves behind may still speak of its keys: stray rejections, its status.
  readonly #recent = new LRUCache<string, true>({
    max: 10_000,
    ttl: 16 * 60_000,
    dispose: (_, secret, reason) => {
      if (reason !== 'set' && !this.#uses.has(secret)) this.#unindex(secret)
    },
  })
  // By their first characters, so that the cost of a line does not grow with the number of keys.
  readonly #byStart = new Map<string, Set<string>>()

  /** Hides `secrets` from now on; null and empty ones are ignored. Returns what ends their use. */
  add(...secrets: readonly (string | null | undefined)[]): () => void {
    const kept = secrets.filter((secret) => typeof secret === 'string')
    const used = kept.filter((secret) => secret.length >= shortestSecret)
    for (const secret of used) {
      this.#uses.set(secret, (this.#uses.get(secret) ?? 0) + 1)
      this.#index(secret)
    }
    return () => {
      for (const secret of used.splice(0)) this.#release(secret)
    }
  }

  /** `text` without the secrets in it. */
  redact(text: string): string {
    let clean = ''
    let done = 0
    for (let at = 0; at + shortestSecret <= text.length; at += 1) {
      const secret = this.#secretAt(text, at)
      if (secret === undefined) continue
      clean += text.slice(done, at) + replacement
      done = at + secret.length
      at = done - 1
    }
    return done === 0 ? text : clean + text.slice(done)
  }

  #secretAt(text: string, at: number): string | undefined {
    const candidates = this.#byStart.get(text.slice(at, at + shortestSecret))
    let longest: string | undefined
    for (const secret of candidates ?? []) {
      if (secret.length > (longest?.length ?? 0) && text.startsWith(secret, at)) longest = secret
    }
    return longest
  }

  #release(secret: string): void {
    const uses = (this.#uses.get(secret) ?? 1) - 1
    if (uses > 0) {
      this.#uses.set(secret, uses)
      return
    }
    this.#uses.delete(secret)
    this.#recent.set(secret, true)
  }

  #index(secret: string): void {
    const start = secret.slice(0, shortestSecret)
    const known = this.#byStart.get(start)
    if (known) known.add(secret)
    else this.#byStart.set(start, new Set([secret]))
  }

  #unindex(secret: string): void {
    const start = secret.slice(0, shortestSecret)
    const known = this.#byStart.get(start)
    known?.delete(secret)
    if (known?.size === 0) this.#byStart.delete(start)
  }
}
