import { createHash, timingSafeEqual } from 'node:crypto'

/** Whether an `authorization` header carries `key`; takes equally long for every wrong guess. */
export function carriesKey(header: string | undefined, key: string): boolean {
  const given = /^bearer +(\S+) *$/i.exec(header ?? '')?.[1] ?? ''
  // Digests have one length, which the comparison needs and which hides the key's own.
  return timingSafeEqual(sha256(given), sha256(key))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
