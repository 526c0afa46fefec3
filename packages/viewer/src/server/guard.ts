import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** Lets in whoever has the link that was printed, and no other page of the same browser. */
export class Guard {
  /** Part of the link; never logged. */
  readonly token: string = randomBytes(24).toString('base64url')

  /**
   * Whether a request names this address. A page of another site that lets its name resolve to this
   * machine still says its own name here.
   */
  isAddressed({ headers }: IncomingMessage, port: number): boolean {
    const { host = '' } = headers
    return host === `127.0.0.1:${port}` || host === `localhost:${port}`
  }

  isAllowed({ headers }: IncomingMessage): boolean {
    // Digests have one length, whatever is sent.
    return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${this.token}`))
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
