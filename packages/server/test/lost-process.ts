import { serve, silentLogger } from '@osmosis/server'

/** A server that cannot continue when it has hardly started. Prints its URL. */
const lost = new AbortController()
const { url } = await serve(
  {
    fetch: async () => new Response(),
    requiresKey: false,
    logger: silentLogger,
    lost: lost.signal,
    start: async () => lost.abort(),
    drain: async () => undefined,
  },
  { port: 0 },
)
process.stdout.write(`${url}\n`)
