import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port that is free, and that no connection is given while its server is being started again: they
 * come from 32768 on.
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
