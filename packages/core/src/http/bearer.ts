import { createHash, timingSafeEqual } from 'node:crypto'

import { OsmosisError } from '../errors.ts'

/** Servers take 16 KiB for all headers of a request together. Characters. */
const longestKey = 8192

/** The `authorization` header that presents `key`; none without a key, or with an empty one. */
export function bearer(key: string | null | undefined): { authorization?: string } {
  return key ? { authorization: `Bearer ${key}` } : {}
}

/**
 * Whether an `authorization` header carries `key`; takes equally long for every wrong guess. No
 * header carries no key, whatever the key is, and nothing carries an empty one.
 *
 * @param options.bare - accept the key without `Bearer` in front of it as well
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
 * Refuses a key that no caller could present: a server would look protected and serve nobody.
 *
 * @param name - what the key is called where it was given
 * @throws OsmosisError with code `invalid_config`; the key is not repeated
 */
export function assertApiKey(apiKey: string | undefined, name = 'apiKey'): void {
  if (apiKey === undefined) return
  if (apiKey.length > longestKey) {
    throw new OsmosisError(
      'invalid_config',
      `${name} has ${apiKey.length} characters, and ${longestKey} at most fit into a header. Use a shorter key.`,
    )
  }
  if (/^[\x21-\x7E]+$/.test(apiKey)) return
  const advice =
    apiKey === ''
      ? `${name} is empty. Leave it out, or set a real key.`
      : `${name} must be visible ASCII characters without spaces and line breaks: callers send it in a header.`
  throw new OsmosisError('invalid_config', advice)
}

// Digests have one length, which the comparison needs and which hides the key's own.
function isSame(given: string, key: string): boolean {
  return timingSafeEqual(sha256(given), sha256(key))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
