import { createHash, timingSafeEqual } from 'node:crypto'

import { OsmosisError } from '../errors.ts'

/** Servers accept 16 KiB for all headers of a request together. Characters. */
const maxKeyLength = 8192

/** The `authorization` header that presents `key`; none without a key, or with an empty one. */
export function bearer(key: string | null | undefined): { authorization?: string } {
  return key ? { authorization: `Bearer ${key}` } : {}
}

/**
 * Whether an `authorization` header carries `key`, compared in constant time. A missing header carries no
 * key, and no header carries an empty one.
 *
 * @param options.bare - accept the key without `Bearer`, too
 */
export function carriesKey(
  header: string | null | undefined,
  key: string,
  options: { readonly bare?: boolean } = {},
): boolean {
  const text = header?.trim() ?? ''
  const given = /^bearer +(\S+)$/i.exec(text)?.[1] ?? (options.bare ? text : '')
  return given !== '' && isSame(given, key)
}

/**
 * Refuses a key that no caller could send: the server would refuse every request.
 *
 * @param name - the name of the setting
 * @throws OsmosisError with code `invalid_config`, without the key
 */
export function assertApiKey(apiKey: string | undefined, name = 'apiKey'): void {
  if (apiKey === undefined) return
  if (apiKey.length > maxKeyLength) {
    throw new OsmosisError(
      'invalid_config',
      `${name} has ${apiKey.length} characters, and at most ${maxKeyLength} fit into a header. Use a shorter key.`,
    )
  }
  if (/^[\x21-\x7E]+$/.test(apiKey)) return
  const advice =
    apiKey === ''
      ? `${name} is empty. Leave it out, or set a real key.`
      : `${name} must be visible ASCII characters without spaces and line breaks: callers send it in a header.`
  throw new OsmosisError('invalid_config', advice)
}

// timingSafeEqual needs equal lengths, which digests have.
function isSame(given: string, key: string): boolean {
  return timingSafeEqual(sha256(given), sha256(key))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/**
 * The forms in which a key appears in text: as it is, in a URL, in JSON, in JSON inside a JSON
 * string, in HTML, and in base64, also as part of a longer value such as the `user:key` of basic
 * authentication. For most keys the first few forms are equal, and cost nothing extra.
 *
 * @param shortest - forms with fewer characters are left out
 */
export function secretForms(secret: string, shortest: number): string[] {
  const inJson = inString(secret)
  const forms = new Set([secret, inJson, inString(inJson), inHtml(secret)])
  const component = encoded(secret, encodeURIComponent)
  const query = new URLSearchParams({ '': secret }).toString().slice(1)
  // Python does not escape slashes, and the user part of a URL has rules of its own.
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
  return [...forms].filter((form) => form.length >= shortest)
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

/** An unpaired surrogate has no form in a URL. */
function encoded(secret: string, encode: (text: string) => string): string {
  try {
    return encode(secret)
  } catch {
    return secret
  }
}

/**
 * The part of the base64 form of `bytes` that does not depend on other bytes around it, when `before` bytes
 * precede it. A letter has 6 bits.
 */
function innerBase64(bytes: Buffer, before: number): string {
  const letters = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
  const first = Math.ceil((before * 8) / 6)
  const end = Math.floor(((before + bytes.length) * 8) / 6)
  return letters.slice(first, end)
}
