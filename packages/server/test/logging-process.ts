import { createStderrLogger, type LogFormat } from '../src/logging/logger.ts'

/** Logs an event of each kind in each of the formats; run by tests in a process of its own. */
for (const format of process.argv.slice(2)) {
  const logger = createStderrLogger({ level: 'debug', format: format as LogFormat })
  logger.debug({}, 'looked')
  logger.info({ rollout_id: 'r1', url: 'http://127.0.0.1:8000' }, 'rollout accepted')
  logger.warn({ rollout_id: 'r2\u001B[2J', attempt: 2 }, 'said\n12:00:00 ERROR of somebody else')
  const error = new Error('it broke', { cause: new Error('a disk is full') })
  const described = {
    message: error.message,
    stack: error.stack,
    cause: { message: 'a disk is full' },
  }
  logger.error({ rollout_id: 'r1', error: described }, 'rollout failed')
}
