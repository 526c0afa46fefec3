import { createHash, timingSafeEqual } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'

/** Whether an `authorization` header carries `key`; takes equally long for every wrong guess. */
export function carriesKey(header: string | undefined, key: string): boolean {
  const given = /^bearer +(\S+) *$/i.exec(header ?? '')?.[1] ?? ''
  // Digests have one length, which the comparison needs and which hides the key's own.
  return timingSafeEqual(sha256(given), sha256(key))
}

/**
 * Refuses a key that no caller could present: a server would look protected and serve nobody.
 *
 * @throws OsmosisError with code `invalid_config`; the key is not repeated
 */
export function assertApiKey(apiKey: string | undefined): void {
  if (apiKey === undefined || /^[\x21-\x7E]+$/.test(apiKey)) return
  const advice =
    apiKey === ''
      ? 'apiKey is empty. Leave it out, or set a real key.'
      : 'apiKey must be visible ASCII characters without spaces and line breaks: callers send it in a header.'
  throw new OsmosisError('invalid_config', advice)
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
