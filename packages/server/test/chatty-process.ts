import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

import { createStderrLogger } from '../src/logging/logger.ts'

/** Logs many lines, run by tests in a process of its own; reports on stdout that it could continue. */
const logger = createStderrLogger()
const lines = Number(process.argv[2])
for (let index = 0; index < lines; index += 1) {
  logger.info({ index }, `line ${String(index).padStart(4, '0')} ${'.'.repeat(1000)}`)
}
await sleep(100)
process.stdout.write('the event loop continued\n')
// It was read.
await once(process.stdin, 'data')
logger.info({}, 'last line')
process.exit(0)
