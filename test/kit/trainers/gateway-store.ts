import type { ChatCompletion } from '@osmosis/core/policy'

import { recordedTokens, type TrainedCall } from './trained-call.ts'

/** A rollout for the queue of a fake gateway. */
export interface QueuedRollout {
  /** Default: `rollout-<n>`, counted from 0. */
  readonly id?: string
  /** What its rewards are compared with; default: its id. */
  readonly group?: string
  /** The row. */
  readonly input: unknown
  /** Default: true. */
  readonly isTrain?: boolean
  /** Default: 3600. */
  readonly timeoutSeconds?: number
}

/** Something that was recorded of a rollout. */
export type GatewayEvent =
  | {
      readonly kind: 'call'
      readonly attempt: string
      /** `train`, or `val`, in which the gateway samples greedily and asks for no logprobs. */
      readonly mode: string
      readonly answer: ChatCompletion
    }
  | { readonly kind: 'reward'; readonly attempt: string; readonly value: unknown }

/** A rollout on a fake gateway. */
export interface RolloutOnGateway extends Required<QueuedRollout> {
  readonly state: 'queuing' | 'running' | 'succeeded' | 'failed'
  /** The attempt that is trained; null until somebody named one. */
  readonly lastAttempt: string | null
  readonly errorMessage: string | null
  /** When its status was last changed. Seconds since the epoch. */
  readonly updatedAt: number
  readonly events: readonly GatewayEvent[]
  /** How many events there were when it ended; undefined until then. */
  readonly endedAfter: number | undefined
}

/** The same, for the gateway itself. */
export type StoredGatewayRollout = {
  -readonly [Key in Exclude<keyof RolloutOnGateway, 'events'>]: RolloutOnGateway[Key]
} & { readonly events: GatewayEvent[] }

/** What the path of a model call contains. */
export interface ModelRequest {
  readonly rolloutId: string
  readonly attempt: string
  readonly mode: string
}

export function newRollout(row: QueuedRollout, n: number): StoredGatewayRollout {
  const { id = `rollout-${n}`, group = id, input, isTrain = true, timeoutSeconds = 3600 } = row
  return {
    id,
    group,
    input,
    isTrain,
    timeoutSeconds,
    state: 'queuing',
    lastAttempt: null,
    errorMessage: null,
    updatedAt: Date.now() / 1000,
    events: [],
    endedAfter: undefined,
  }
}

export function modelRequest(path: string): ModelRequest | undefined {
  const route =
    /^\/proxy\/rollout\/([^/]+)\/attempt\/([^/]+)\/mode\/(train|val)\/openai\/v1\/chat\/completions$/
  const [, rolloutId, attempt = '', mode = ''] = route.exec(path) ?? []
  return rolloutId === undefined
    ? undefined
    : { rolloutId: decodeURIComponent(rolloutId), attempt, mode }
}

/** As the API gives it. */
export function rolloutBody(rollout: RolloutOnGateway): object {
  const { id, input, isTrain, timeoutSeconds, state, lastAttempt, errorMessage } = rollout
  return {
    rollout_id: id,
    input,
    is_train: isTrain,
    config: { timeout_seconds: timeoutSeconds },
    metadata: {},
    status: {
      state,
      last_attempt_id: lastAttempt,
      error_message: errorMessage,
      updated_at: rollout.updatedAt,
    },
  }
}

const follows: Readonly<Record<string, readonly string[]>> = {
  queuing: ['running', 'failed'],
  running: ['succeeded', 'failed'],
}

/** Changes the status of a rollout, unless that is refused. Without a new state, the present one is not checked. */
export function statusChange(
  rollout: StoredGatewayRollout,
  change: unknown,
): { readonly status: number; readonly why: string } | undefined {
  const {
    state,
    last_attempt_id: attempt,
    error_message: message,
    ...unknown
  } = { ...(change as object) } as {
    state?: RolloutOnGateway['state']
    last_attempt_id?: string
    error_message?: string
  }
  const [stranger] = Object.keys(unknown)
  if (stranger !== undefined)
    return { status: 422, why: `Extra inputs are not permitted: ${stranger}` }
  if (state !== undefined && !follows[rollout.state]?.includes(state)) {
    return { status: 409, why: `cannot transition ${rollout.state} -> ${state}` }
  }
  rollout.updatedAt = Date.now() / 1000
  if (state !== undefined) rollout.state = state
  if (attempt !== undefined) rollout.lastAttempt = attempt
  if (message !== undefined) rollout.errorMessage = message
  if (state === 'succeeded' || state === 'failed') rollout.endedAfter = rollout.events.length
  return undefined
}

/** The attempt of calls before a worker has named one. */
const defaultAttempt = '0'

/**
 * What the trainer takes of a rollout: it waits for an end of either kind, and then takes what is recorded
 * under the last attempt. A reward that comes after the end may be too late; a later call is still recorded.
 */
export function trainedCalls(rollout: RolloutOnGateway): TrainedCall[] {
  const { id, group, isTrain, endedAfter, lastAttempt } = rollout
  if (!isTrain || endedAfter === undefined) return []
  const exported = lastAttempt ?? defaultAttempt
  let reward = 0
  for (const event of rollout.events.slice(0, endedAfter)) {
    if (event.kind === 'reward' && event.attempt === exported) {
      reward = typeof event.value === 'number' ? event.value : 0
    }
  }
  const byPrompt = new Map<string, TrainedCall>()
  for (const event of rollout.events) {
    if (event.kind !== 'call' || event.attempt !== exported) continue
    const { logprobs, ...recorded } = recordedTokens(event.answer)
    const tokens = { ...recorded, logprobs: event.mode === 'train' ? logprobs : [] }
    const prompt = tokens.promptIds.join()
    // Behind the others, as it was recorded behind them.
    byPrompt.delete(prompt)
    byPrompt.set(prompt, { rolloutId: id, group, reward, ...tokens })
  }
  return [...byPrompt.values()]
}
