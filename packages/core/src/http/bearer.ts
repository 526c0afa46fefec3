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
