import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { wait, withTimeLimit } from '@osmosis/core/http'
import {
  drainRequestSchema,
  drainResponseSchema,
  healthResponseSchema,
} from '@osmosis/protocol/wire'

import {
  sendInTime,
  brokenAnswer,
  readAnswer,
  type ServerConnection,
} from '../http/server-client.ts'

/** A server's report after its admission was closed. */
export interface DrainReport {
  /** Whether all rollouts have ended. */
  readonly drained: boolean
  /** Rollouts that have not ended, or whose results are being written. */
  readonly activeRollouts: number
  /** Every rollout that the process has admitted, sorted. */
  readonly rolloutIds: readonly string[]
  readonly instanceId: string
  /** Changes with each start of the server. */
  readonly processId: string
}

/** A server's report when it has no active rollouts. */
export interface IdleReport {
  readonly acceptingRollouts: boolean
  readonly processId: string
}

/** See `RolloutClient.drain`. */
export async function drain(
  connection: ServerConnection,
  { timeoutSeconds, signal }: { timeoutSeconds: number; signal: AbortSignal },
): Promise<DrainReport> {
  const parsed = drainRequestSchema.safeParse({ timeout_sec: timeoutSeconds })
  if (!parsed.success) {
    const message = `timeoutSeconds must be a number from 0 to 300, got ${timeoutSeconds}.`
    throw new OsmosisError('invalid_request', message)
  }
  const request = { path: '/drain', body: parsed.data }
  const limitMs = (timeoutSeconds + 5) * 1000
  const answer = await sendInTime(connection, request, { limitMs, signal })
  const body = readAnswer(request, answer, drainResponseSchema)
  if (body.accepting_rollouts)
    throw brokenAnswer(request, answer, 'says that rollouts are accepted')
  return {
    drained: body.drained,
    activeRollouts: body.active_rollouts,
    rolloutIds: body.rollout_ids,
    instanceId: body.instance_id,
    processId: body.process_id,
  }
}

/** Pause between two health checks. Milliseconds. */
const pauseMs = 1000
/** Time limit of a health check. Milliseconds. */
const healthLimitMs = 10_000
const passing = new Set<unknown>([408, 429, 500, 502, 503, 504])

/** See `RolloutClient.waitIdle`. */
export async function waitIdle(
  connection: ServerConnection,
  options: { timeoutSeconds: number; processId?: string | undefined; signal: AbortSignal },
): Promise<IdleReport> {
  const { timeoutSeconds, signal } = options
  if (!(timeoutSeconds >= 0)) {
    const message = `timeoutSeconds must be a number of at least 0, got ${timeoutSeconds}.`
    throw new OsmosisError('invalid_request', message)
  }
  let { processId } = options
  let last = 'It gave no answer.'
  const late = (): OsmosisError => {
    const message = `The rollout server was not idle within ${timeoutSeconds} s. ${last}`
    return new OsmosisError('timeout', message)
  }
  return withTimeLimit({ limitMs: timeoutSeconds * 1000, outer: signal, late }, async (limited) => {
    for (;;) {
      try {
        const { activeRollouts, ...seen } = await look(connection, limited)
        processId ??= seen.processId
        if (seen.processId !== processId) throw restarted(processId, seen.processId)
        if (activeRollouts === 0) return seen
        last =
          activeRollouts === 1 ? '1 rollout was active.' : `${activeRollouts} rollouts were active.`
      } catch (error) {
        limited.throwIfAborted()
        if (!isTransient(error)) throw error
        last = error.message
      }
      await wait(pauseMs, limited)
    }
  })
}

// Servers differ in the other fields.
const lifecycleSchema = healthResponseSchema.pick({ process_id: true, lifecycle: true })

async function look(
  connection: ServerConnection,
  signal: AbortSignal,
): Promise<IdleReport & { activeRollouts: number }> {
  const request = { path: '/health' }
  const answer = await sendInTime(connection, request, { limitMs: healthLimitMs, signal })
  const { process_id: processId, lifecycle } = readAnswer(request, answer, lifecycleSchema)
  if (processId === undefined || lifecycle === undefined) {
    throw brokenAnswer(request, answer, 'has no process_id or no lifecycle: the server is too old')
  }
  const { accepting_rollouts: acceptingRollouts, active_rollouts: activeRollouts } = lifecycle
  return { acceptingRollouts, activeRollouts, processId }
}

function isTransient(error: unknown): error is OsmosisError {
  if (!isOsmosisError(error) || error.code !== 'protocol_error') return false
  return error.status === undefined || passing.has(error.status)
}

function restarted(before: string, now: string): OsmosisError {
  return new OsmosisError(
    'protocol_error',
    `The rollout server was restarted (process ${before}, now ${now}): what it ran before is lost. Send it again under new rolloutIds.`,
    { status: 200 },
  )
}
