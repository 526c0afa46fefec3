import { startTimer } from '@osmosis/core/http'

import type {
  RolloutEnding,
  RolloutFacts,
  RolloutSession,
  RolloutSessions,
} from './rollout-sessions.ts'

/** A rollout to drive, and the outcomes that its protocol does not report. */
export interface DrivenRollout<Outcome, State> {
  readonly sessions: RolloutSessions<Outcome, State>
  readonly session: RolloutSession<Outcome, State>
  /** Cancels the rollout. */
  readonly signal: AbortSignal
  /** How long to wait for the end once the order was accepted. Milliseconds; null: no limit. */
  readonly timeoutMs: number | null
  /** Sends the order, until it is accepted. */
  readonly send: (signal: AbortSignal) => Promise<void>
  /**
   * Fetches the end of an accepted rollout that has no callbacks; rejects when that is not possible. `signal`
   * aborts when the rollout has ended otherwise.
   */
  readonly follow?: (signal: AbortSignal) => Promise<void>
  readonly timedOut: (facts: RolloutFacts) => Outcome
  readonly cancelled: (facts: RolloutFacts) => Outcome
  /** Asks the server to stop; never rejects. */
  readonly stop: () => Promise<void>
}

/** Runs one rollout from its order to its end; see `Controller.run` and `Trainer.run`. */
export async function driveRollout<Outcome extends { readonly status: RolloutEnding }, State>(
  rollout: DrivenRollout<Outcome, State>,
): Promise<Outcome> {
  const { sessions, session, signal } = rollout
  try {
    // A rollout can end before the server has answered the order.
    const admission = rollout.send(AbortSignal.any([signal, session.signal]))
    await Promise.race([admission, session.ended])
  } catch (error) {
    if (signal.aborted) return cancel(rollout)
    // The server may have run the rollout although its answer to the order was lost.
    return session.endedOr(async () => {
      sessions.discard(session)
      throw error
    })
  }
  let next: Outcome | 'timeout' | 'aborted'
  try {
    next = await waitForEnd(rollout)
  } catch (error) {
    if (signal.aborted) return cancel(rollout)
    sessions.retire(session)
    throw error
  }
  if (next === 'aborted') return cancel(rollout)
  if (next !== 'timeout') return next
  const outcome = await endOrRetire(rollout, rollout.timedOut)
  if (outcome.status === 'timeout') await rollout.stop()
  return outcome
}

async function cancel<Outcome extends { readonly status: RolloutEnding }, State>(
  rollout: DrivenRollout<Outcome, State>,
): Promise<Outcome> {
  const outcome = await endOrRetire(rollout, rollout.cancelled)
  if (outcome.status !== 'cancelled') return outcome
  await rollout.stop()
  throw rollout.signal.reason
}

/** Ends a session, and closes it even if the commit fails, because no caller waits for it afterwards. */
async function endOrRetire<Outcome, State>(
  { sessions, session }: DrivenRollout<Outcome, State>,
  produce: (facts: RolloutFacts) => Outcome,
): Promise<Outcome> {
  try {
    return await session.end(produce)
  } catch (error) {
    sessions.retire(session)
    throw error
  }
}

async function waitForEnd<Outcome, State>({
  session,
  signal,
  timeoutMs,
  follow = async () => {},
}: DrivenRollout<Outcome, State>): Promise<Outcome | 'timeout' | 'aborted'> {
  if (signal.aborted) return 'aborted'
  const first = Promise.withResolvers<'timeout' | 'aborted'>()
  follow(session.signal).catch(first.reject)
  const onAbort = (): void => first.resolve('aborted')
  signal.addEventListener('abort', onAbort)
  const timer = startTimer(timeoutMs ?? Infinity, () => first.resolve('timeout'))
  try {
    return await Promise.race([session.ended, first.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
    timer.clear()
  }
}
