import type {
  Controller,
  RolloutOrder,
  RolloutOutcome,
  RunOptions,
  ServerAddress,
} from '@osmosis/controller'
import type { RolloutStatus } from '@osmosis/core'

/** A rollout that is over, as far as this machine can tell. */
export interface SentRollout extends Omit<RolloutOutcome, 'status'> {
  readonly status: RolloutStatus
}

/**
 * Sends a rollout and waits for its end, and says which phases it goes through and why it failed. When
 * `signal` aborts, the rollout is cancelled.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error`
 */
export async function sendRollout(
  controller: Controller,
  order: RolloutOrder & { readonly rolloutId: string },
  options: {
    readonly server: ServerAddress
    readonly say: (line: string) => void
    readonly signal: AbortSignal
  },
): Promise<SentRollout> {
  const { server, say, signal } = options
  let said = ''
  const onStatus = (status: RolloutStatus): void => {
    if (status !== said) say(`status: ${status}`)
    said = status
  }
  let last: RolloutOutcome | undefined
  const run: RunOptions = {
    server,
    signal,
    fetchResult: true,
    onStatus,
    onTerminal: (outcome) => void (last = outcome),
  }
  try {
    await controller.run(order, run)
  } catch (error) {
    if (!signal.aborted) throw error
  }
  if (last === undefined) throw signal.reason
  const status = last.status === 'timeout' ? 'failure' : last.status
  onStatus(status)
  if (status === 'failure') {
    const { errorMessage, errorCategory } = last
    say(`error: ${errorMessage ?? 'no reason was given'} (${errorCategory ?? 'no category'})`)
  }
  return { ...last, status }
}
