import { errorMessage } from '@osmosis/core'

import { oneLine } from '../agent-loop/row-text.ts'
import { printError, withSurroundings } from './surroundings.ts'

/**
 * Does some work, and warns meanwhile of rejections in user code that nobody handles. They would
 * end the process, and with it all that was done so far.
 */
export async function survivingStrayRejections<T>(work: () => Promise<T>): Promise<T> {
  const onRejection = withSurroundings(warn)
  process.on('unhandledRejection', onRejection)
  try {
    return await work()
  } finally {
    process.off('unhandledRejection', onRejection)
  }
}

function warn(reason: unknown): void {
  const message = oneLine(errorMessage(reason))
  printError(`warning: unhandled rejection in user code: ${message}\n`)
}
