import { OsmosisError } from '@osmosis/core'
import { beginningOf, errorTextBytes } from '@osmosis/core/http'
import type { ExecutionOutcome } from '@osmosis/server/execution'

import type { TrainerRequest } from './trainer-client.ts'

/** A rollout of the gateway of Agent Lightning. */
export interface GatewayRollout {
  readonly id: string
  readonly input: unknown
  readonly isTrain: boolean
  readonly timeoutSeconds: number
  readonly state: string
  /** The attempt that is exported; undefined until a worker has named one. */
  readonly attempt: string | undefined
  /** When its status was last changed. Seconds since the epoch, by the gateway's clock. */
  readonly updatedAt: number
}

/** An attempt without recorded calls. A rollout whose last attempt it is trains nothing. */
const voidAttempt = '0-void'

/** A change of a rollout's status. The gateway refuses unknown fields. */
export interface StatusChange {
  readonly state?: 'running' | 'succeeded' | 'failed'
  readonly last_attempt_id?: string
  readonly error_message?: string
}

export function pathOf(id: string): string {
  return `/api/rollouts/${encodeURIComponent(id)}`
}

export function patch(id: string, status: StatusChange): TrainerRequest {
  return { method: 'PATCH', path: pathOf(id), body: { status } }
}

/**
 * The status that reports an outcome. The trainer ignores the state: it trains the calls of the last attempt,
 * with 0 when that has no reward.
 */
export function finalStatus(end: ExecutionOutcome, attempt: string): StatusChange {
  if (end.kind === 'rewarded') return { state: 'succeeded', last_attempt_id: attempt }
  if (end.kind === 'removed') return { state: 'succeeded', last_attempt_id: voidAttempt }
  const message = beginningOf(end.message, errorTextBytes)
  return { state: 'failed', last_attempt_id: voidAttempt, error_message: message }
}

/** The gateway's own default. */
const defaultTimeoutSeconds = 3600

/** @throws OsmosisError with code `protocol_error` */
export function gatewayRollouts(json: unknown): GatewayRollout[] {
  if (!Array.isArray(json)) throw unexpected('is not a list of rollouts')
  return json.map(gatewayRollout)
}

/**
 * Parses a rollout, alone or beside its attempts.
 *
 * @throws OsmosisError with code `protocol_error`
 */
export function gatewayRollout(json: unknown): GatewayRollout {
  const answer = objectOf(json)
  const rollout = 'rollout' in answer ? objectOf(answer['rollout']) : answer
  const { rollout_id: id, input, is_train: isTrain, config, status } = rollout
  const { state, last_attempt_id: attempt, updated_at: updatedAt } = objectOf(status)
  const { timeout_seconds: timeoutSeconds } = objectOf(config)
  if (typeof id !== 'string' || typeof state !== 'string') throw unexpected('is not a rollout')
  return {
    id,
    input,
    isTrain: isTrain !== false,
    timeoutSeconds: typeof timeoutSeconds === 'number' ? timeoutSeconds : defaultTimeoutSeconds,
    state,
    attempt: typeof attempt === 'string' ? attempt : undefined,
    updatedAt: typeof updatedAt === 'number' ? updatedAt : Number.POSITIVE_INFINITY,
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function unexpected(what: string): OsmosisError {
  return new OsmosisError(
    'protocol_error',
    `The answer of the gateway ${what}. Check that the URL is a gateway of Agent Lightning v1.`,
  )
}
