import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A free port outside of the range of outgoing connections (32768 and above), so that none of them takes
 * it while its server is restarted.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    const server = createServer()
    const isFree = new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!(await isFree)) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
