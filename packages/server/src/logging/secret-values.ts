import { beginningOf, cutEnd, errorTextBytes } from '@osmosis/core/http'
import { LRUCache } from 'lru-cache'

import { shortestValue, ValueIndex } from './value-index.ts'

/**
 * The forms in which a key turns up in text: as it is, in a URL, in JSON, also in JSON that is a
 * string of JSON, in HTML, and in base64, also within a longer value such as the `user:key` of basic
 * authentication. Most keys are the same in the first few of them, and cost no more.
 */
function formsOf(secret: string): string[] {
  const inJson = inString(secret)
  const forms = new Set([secret, inJson, inString(inJson), inHtml(secret)])
  const component = encoded(secret, encodeURIComponent)
  const query = new URLSearchParams({ '': secret }).toString().slice(1)
  // Python leaves slashes as they are, and the user of a URL has rules of its own.
  const python = component.replaceAll('%2F', '/')
  for (const inUrl of [component, python, encoded(secret, encodeURI), query, asUser(secret)]) {
    forms.add(inUrl)
    forms.add(inUrl.replaceAll(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase()))
  }
  const bytes = Buffer.from(secret)
  forms.add(bytes.toString('base64'))
  for (const before of [0, 1, 2]) {
    const inner = innerBase64(bytes, before)
    forms.add(inner)
    forms.add(inner.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return [...forms].filter((form) => form.length >= shortestValue)
}

function inString(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '"': '&quot;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
}

function inHtml(text: string): string {
  return text.replaceAll(/[&"<>']/g, (character) => entities[character] ?? character)
}

function asUser(secret: string): string {
  const url = new URL('http://host')
  url.username = secret
  return url.username
}

/** Half of a surrogate pair has no form in a URL. */
function encoded(secret: string, encode: (text: string) => string): string {
  try {
    return encode(secret)
  } catch {
    return secret
  }
}

/**
 * What base64 makes of `bytes` behind `before` others: the letters that no byte outside has a part
 * in. A letter has 6 bits.
 */
function innerBase64(bytes: Buffer, before: number): string {
  const letters = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
  const first = Math.ceil((before * 8) / 6)
  const end = Math.floor(((before + bytes.length) * 8) / 6)
  return letters.slice(first, end)
}

const replacement = '[redacted]'

/**
 * The keys this server was trusted with, and their removal from text. By value: a key also turns
 * up where no field name announces it, such as in the message of somebody else's error. Keys of less
 * than six characters are words, and hiding them would garble what is said.
 */
export class SecretValues {
  readonly #uses = new Map<string, number>()
  readonly #hidden = new Set<string>()
  readonly #index = new ValueIndex()
  // What a rollout leaves behind may still speak of its keys: stray rejections, its status.
  readonly #recent = new LRUCache<string, true>({
    max: 10_000,
    ttl: 16 * 60_000,
    dispose: (_, secret, reason) => {
      if (reason !== 'set' && !this.#uses.has(secret)) this.#hideNoMore(secret)
    },
  })

  /** Hides `secrets` from now on; null and empty ones are ignored. Returns what ends their use. */
  add(...secrets: readonly (string | null | undefined)[]): () => void {
    const kept = secrets.filter((secret) => typeof secret === 'string')
    const used = kept.filter((secret) => secret.length >= shortestValue)
    for (const secret of used) {
      this.#uses.set(secret, (this.#uses.get(secret) ?? 0) + 1)
      this.#hide(secret)
    }
    return () => {
      for (const secret of used.splice(0)) this.#release(secret)
    }
  }

  /** `text` without the secrets in it, in whatever form they are there. */
  redact(text: string): string {
    return this.#index.replaceAll(text, replacement)
  }

  /**
   * The text of an error as it may be said: without secrets, and its beginning only.
   *
   * @param longestBytes - bytes of UTF-8; default 8 KiB
   */
  redactError(text: string, longestBytes: number = errorTextBytes): string {
    // What is not looked at costs nothing.
    const started = beginningOf(text, longestBytes)
    const end = cutEnd(started)
    const clean =
      end === undefined
        ? this.redact(started)
        : // A cut may have left a piece of a key, which nobody would know for one.
          this.#index.withoutStarted(this.redact(started.slice(0, -end.length))) + end
    return beginningOf(clean, longestBytes)
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

  #hide(secret: string): void {
    if (this.#hidden.has(secret)) return
    this.#hidden.add(secret)
    for (const form of formsOf(secret)) this.#index.add(form)
  }

  #hideNoMore(secret: string): void {
    this.#hidden.delete(secret)
    for (const form of formsOf(secret)) this.#index.delete(form)
  }
}
