import type { LeasedResult, PolicyAccess, RolloutHandle } from '@osmosis/controller'
import { errorMessage } from '@osmosis/core'

/** How long a rollout that was cancelled may take to end. Milliseconds. */
const cancellingMs = 5000

/** A rollout that is over, as far as this machine can tell. */
export interface SentRollout extends Pick<PolicyAccess, 'rolloutId' | 'policyCalls' | 'usage'> {
  /** The newest; null when it was given up before there was any. */
  readonly result: LeasedResult | null
}

/**
 * Waits for the end of a rollout, and says which phases it goes through and why it failed. When
 * `signal` aborts, the rollout is cancelled.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error`
 */
export async function watchRollout(
  handle: RolloutHandle,
  { say, signal }: { say: (line: string) => void; signal: AbortSignal },
): Promise<LeasedResult | null> {
  let said = ''
  const saySomethingNew = (): void => {
    if (handle.status === said) return
    said = handle.status
    say(`status: ${said}`)
  }
  saySomethingNew()
  try {
    for (const phase of ['running', 'grading', 'completed'] as const) {
      await handle.waitFor(phase, { signal })
      saySomethingNew()
    }
  } catch (error) {
    if (!signal.aborted) throw error
    await cancel(handle, say)
    saySomethingNew()
  }
  const { status, errorMessage: reason, errorCategory } = handle.latestResult ?? {}
  if (status === 'failure') {
    say(`error: ${reason ?? 'no reason was given'} (${errorCategory ?? 'no category'})`)
  }
  return handle.latestResult
}

async function cancel(handle: RolloutHandle, say: (line: string) => void): Promise<void> {
  try {
    await handle.cancelAtServer()
    await handle.waitFor('completed', { signal: AbortSignal.timeout(cancellingMs) })
  } catch (error) {
    say(`warning: The rollout may run until its lease lapses: ${errorMessage(error)}`)
  }
}
