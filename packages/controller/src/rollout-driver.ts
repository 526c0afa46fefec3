import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

import type { Dispatcher } from 'undici'

import { admit } from './admission.ts'
import type { ServerAddress } from './controller-options.ts'
import type { RolloutOrder } from './rollout-order.ts'
import { type ReturnAddress, toRolloutRequest } from './rollout-request.ts'
import type { RolloutOutcome } from './rollout-result.ts'
import { requestCancel } from './rollout-server-client.ts'
import type { RolloutSession } from './rollout-session.ts'
import type { RolloutSessions } from './rollout-sessions.ts'
import { cancelledResult, timedOutResult } from './terminal-result.ts'

// Node fires timers with a longer delay at once.
const longestTimerMs = 2 ** 31 - 1

/** What driving a rollout needs from its controller. */
export interface DriverContext {
  readonly sessions: RolloutSessions
  readonly address: ReturnAddress
  readonly server: ServerAddress
  readonly dispatcher: Dispatcher
  readonly signal: AbortSignal
}

/** Runs one rollout from its order to its end; see `Controller.run`. */
export async function driveRollout(
  order: RolloutOrder,
  context: DriverContext,
): Promise<RolloutOutcome> {
  const { sessions, server, dispatcher, signal } = context
  signal.throwIfAborted()
  const rolloutId = order.rolloutId ?? randomUUID().replaceAll('-', '')
  const body = toRolloutRequest(rolloutId, order, context.address)
  const session = sessions.register(rolloutId, { graded: order.grade ?? true })
  try {
    const admission = admit(server, body, { dispatcher, signal, onSend: () => session.markSent() })
    // A rollout can be over before the server has answered the order.
    await Promise.race([admission, session.ended])
  } catch (error) {
    if (signal.aborted) return cancel(session, context)
    // The server may have run the rollout although its answer to the order was lost.
    const result = await session.committed()
    if (result !== undefined) return result
    sessions.discard(session)
    throw error
  }
  const timeoutMs = order.timeoutMs ?? Infinity
  const next = await waitForEnd(session, timeoutMs, signal)
  if (next === 'aborted') return cancel(session, context)
  if (next !== 'timeout') return next
  const result = await endOrRetire(session, sessions, (facts) => timedOutResult(facts, timeoutMs))
  if (result.status === 'timeout') await requestCancel(server, rolloutId, dispatcher)
  return result
}

async function cancel(session: RolloutSession, context: DriverContext): Promise<RolloutOutcome> {
  const result = await endOrRetire(session, context.sessions, cancelledResult)
  if (result.status !== 'cancelled') return result
  await requestCancel(context.server, session.rolloutId, context.dispatcher)
  throw context.signal.reason
}

/** Ends a session that nobody waits for afterwards, so that it must not stay open. */
async function endOrRetire(
  session: RolloutSession,
  sessions: RolloutSessions,
  produce: Parameters<RolloutSession['end']>[0],
): Promise<RolloutOutcome> {
  try {
    return await session.end(produce)
  } catch (error) {
    sessions.retire(session)
    throw error
  }
}

async function waitForEnd(
  session: RolloutSession,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<RolloutOutcome | 'timeout' | 'aborted'> {
  if (signal.aborted) return 'aborted'
  const aborted = Promise.withResolvers<'aborted'>()
  const onAbort = (): void => aborted.resolve('aborted')
  signal.addEventListener('abort', onAbort)
  const stopTimer = new AbortController()
  try {
    return await Promise.race([
      session.ended,
      aborted.promise,
      ...(timeoutMs === Infinity ? [] : [timer(timeoutMs, stopTimer.signal)]),
    ])
  } finally {
    signal.removeEventListener('abort', onAbort)
    stopTimer.abort()
  }
}

function timer(ms: number, signal: AbortSignal): Promise<'timeout'> {
  return sleep(Math.min(Math.max(ms, 0), longestTimerMs), 'timeout', { signal })
}
