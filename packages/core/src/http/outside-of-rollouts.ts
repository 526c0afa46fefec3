import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * Runs what belongs to the process, although some rollout needed it first: it finds no ambient rollout, and
 * keeps none alive. A connection, for one, has the async context it was opened in for as long as it is open.
 */
export const outsideOfRollouts = AsyncLocalStorage.snapshot()
