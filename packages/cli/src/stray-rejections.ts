import { errorMessage } from '@osmosis/core'

import { oneLine } from './agent-loop/outcome-text.ts'

/**
 * Does some work, and warns meanwhile of rejections in user code that nobody handles. They would
 * end the process, and with it all that was done so far.
 */
export async function survivingStrayRejections<T>(work: () => Promise<T>): Promise<T> {
  process.on('unhandledRejection', warn)
  try {
    return await work()
  } finally {
    process.off('unhandledRejection', warn)
  }
}

function warn(reason: unknown): void {
  const message = oneLine(errorMessage(reason))
  process.stderr.write(`warning: unhandled rejection in user code: ${message}\n`)
}
