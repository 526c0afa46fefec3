import { createHash, timingSafeEqual } from 'node:crypto'

/** Whether an `authorization` header carries `token`; takes equally long for every wrong guess. */
export function carriesBearer(header: string | undefined, token: string): boolean {
  const given = /^bearer +(.+)$/i.exec(header ?? '')?.[1] ?? ''
  // Digests have one length, which the comparison needs and which hides the token's own.
  return timingSafeEqual(sha256(given), sha256(token))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
