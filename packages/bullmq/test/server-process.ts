import { createQueueServer, openQueue } from '@osmosis/bullmq'
import { serve } from '@osmosis/server'

import { code } from './user-code.ts'

// A server process that tests kill. Prints its URL when it listens.
const { REDIS_URL = '' } = process.env
const queue = await openQueue({ url: REDIS_URL })
const server = createQueueServer({
  queue,
  code,
  callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
  lockDurationMs: 1_000,
})
const { url } = await serve(server, { port: 0 })
process.stdout.write(`${url}\n`)
