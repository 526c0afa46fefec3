import { isOsmosisError, OsmosisError, type OsmosisErrorCode } from '@osmosis/core'
import { beginningOf, errorTextBytes } from '@osmosis/core/http'

import type { CancelDisposition, RolloutStatus } from '../wire/rollout-protocol.ts'
import type {
  RolloutEvent,
  RolloutFailure,
  RolloutState,
  SamplesById,
  WorkflowOutcome,
} from './execution-backend.ts'

// The lifecycle of a rollout. Backends, workers, leases, the outbox and the scripts of the queue decide by
// these tables; none of them has states or limits of its own.

/** A state of a rollout; `unknown` is the answer for a rollout without a state. */
export type LifecycleState = Exclude<RolloutStatus, 'unknown'>

export const endStates = ['success', 'failure', 'cancelled'] as const
export const lifecycleStates: readonly LifecycleState[] = [
  'queued',
  'running',
  'grading',
  ...endStates,
]

/** What an event does to a rollout. It is refused in every state that `to` does not list. */
export interface Transition {
  readonly to: Readonly<Partial<Record<LifecycleState, LifecycleState>>>
  /** Whether it is refused after a cancel, which has promised that the rollout gets no reward. */
  readonly yieldsToCancel: boolean
}

const fromWorkflow = <T extends LifecycleState>(to: T) => ({ queued: to, running: to })

/**
 * State × event → state. An event carries the number of its execution; an event of an execution that is
 * not the current one is refused first (fencing).
 *
 * The start of user code is reported without waiting, so the end of a workflow may arrive before it.
 */
export const transitions = {
  /** A worker takes the rollout, for the first time or after a loss. */
  execution_started: { to: fromWorkflow('queued'), yieldsToCancel: false },
  /** User code is about to run. */
  code_started: { to: { queued: 'running' }, yieldsToCancel: false },
  /** The first model call is about to be sent. From here on the rollout is not executed again. */
  policy_called: { to: { queued: 'queued', running: 'running' }, yieldsToCancel: true },
  /** The workflow succeeded, and its grading follows. */
  workflow_graded: { to: fromWorkflow('grading'), yieldsToCancel: true },
  workflow_succeeded: { to: fromWorkflow('success'), yieldsToCancel: true },
  workflow_failed: { to: fromWorkflow('failure'), yieldsToCancel: false },
  workflow_cancelled: { to: fromWorkflow('cancelled'), yieldsToCancel: false },
  grading_succeeded: { to: { grading: 'success' }, yieldsToCancel: true },
  grading_failed: { to: { grading: 'failure' }, yieldsToCancel: false },
  grading_cancelled: { to: { grading: 'cancelled' }, yieldsToCancel: false },
} as const satisfies Record<string, Transition>

export type LifecycleEvent = keyof typeof transitions

/** The position of a rollout in its lifecycle. */
export interface LifecyclePosition {
  readonly status: LifecycleState
  /** The number of the current execution; backends that execute a rollout once leave it out. */
  readonly execution?: number
  readonly isCancelled: boolean
}

/** Why an event is refused: it does not fit the execution or state, or a cancel came before it. */
export type EventRefusal = 'stale' | 'after_cancel'

/**
 * The state after an event, or why the event is refused and changes nothing.
 *
 * @param execution - the number of the execution that reports the event
 */
export function stateAfter(
  position: LifecyclePosition,
  event: LifecycleEvent,
  execution: number | undefined = position.execution,
): LifecycleState | EventRefusal {
  const { to, yieldsToCancel }: Transition = transitions[event]
  const next = to[position.status]
  if (execution !== position.execution || next === undefined) return 'stale'
  return yieldsToCancel && position.isCancelled ? 'after_cancel' : next
}

export function isEnded(status: RolloutStatus): boolean {
  return (endStates as readonly string[]).includes(status)
}

/** The event that ends a phase with this failure, or without one. */
export function endOfPhase(
  phase: 'workflow' | 'grading',
  failure: RolloutFailure | null,
  isGradedNext = false,
): Exclude<LifecycleEvent, 'execution_started' | 'code_started' | 'policy_called'> {
  if (failure !== null) {
    return isCancellation(failure.cause) ? `${phase}_cancelled` : `${phase}_failed`
  }
  return phase === 'workflow' && isGradedNext ? 'workflow_graded' : `${phase}_succeeded`
}

/**
 * The transition that an event of a backend is.
 *
 * @param grade - whether the request asked for grading
 */
export function transitionOf(event: RolloutEvent, grade: boolean): LifecycleEvent {
  switch (event.type) {
    case 'started':
      return 'code_started'
    case 'workflow':
      return endOfPhase('workflow', event.outcome.failure, grade)
    case 'graded':
      return endOfPhase('grading', event.outcome.failure)
  }
}

/** The state of a rollout that has ended. */
export function endedState(
  failure: WorkflowOutcome['failure'],
  samples: SamplesById,
): RolloutState & { readonly status: (typeof endStates)[number] } {
  if (failure === null) {
    const [only, ...others] = samples.values()
    const reward = others.length === 0 && only && !only.removeSample ? only.reward : null
    return { status: 'success', reward, errorMessage: null }
  }
  const status = isCancellation(failure.cause) ? 'cancelled' : 'failure'
  return { status, reward: null, errorMessage: beginningOf(failure.message, errorTextBytes) }
}

/** The answer to a request to cancel, by the state of the rollout. */
export const cancelDispositions = {
  queued: 'cancelled_queued',
  running: 'cancelled_running',
  grading: 'cancelled_running',
  success: 'not_found',
  failure: 'not_found',
  cancelled: 'not_found',
} as const satisfies Record<LifecycleState, CancelDisposition>

/** The facts about an execution whose worker was lost. */
export interface LostExecution {
  readonly cancelled: boolean
  /** Whether the workflow had succeeded, so that its samples were in the worker. */
  readonly grading: boolean
  readonly calledPolicy: boolean
  /** Number of workers lost after they started user code of the rollout, including this one. */
  readonly lostWorkers: number
  /** Number of executions so far, including this one. */
  readonly executions: number
}

/** Why a rollout is not executed again. */
export type LossReason = (typeof lossRules)[number]['reason']

/** The first rule whose fact reaches its limit ends the rollout. Otherwise it is executed again. */
export const lossRules = [
  { fact: 'cancelled', limit: 1, reason: 'cancelled' },
  { fact: 'grading', limit: 1, reason: 'samples_lost' },
  { fact: 'calledPolicy', limit: 1, reason: 'called_policy' },
  { fact: 'lostWorkers', limit: 2, reason: 'lost_twice' },
  { fact: 'executions', limit: 5, reason: 'never_started' },
] as const satisfies readonly {
  readonly fact: keyof LostExecution
  readonly limit: number
  readonly reason: string
}[]

/** Why the rollout is not executed again; undefined when it is. */
export function afterLoss(lost: LostExecution): LossReason | undefined {
  return lossRules.find(({ fact, limit }) => Number(lost[fact]) >= limit)?.reason
}

const lossTexts: Readonly<Record<Exclude<LossReason, 'cancelled'>, string>> = {
  samples_lost: 'the samples of the rollout were in it, so they are not graded',
  called_policy:
    'the rollout had called the policy, so it is not executed again: that would mix two trajectories under one id',
  lost_twice: 'it is the second worker that was lost while it executed this rollout',
  never_started: 'no worker has lived long enough to start this rollout',
}

/**
 * The error of a rollout that is not executed again.
 *
 * @param what - what happened to the worker, such as `the worker was lost`
 */
export function lossError(what: string, reason: keyof typeof lossTexts): OsmosisError {
  return new OsmosisError('worker_lost', `${what}; ${lossTexts[reason]}`)
}

/**
 * The failure of a rollout whose server process exited first. An outbox stores it with each step for the
 * next process. A queue does not need it, because other servers and workers continue.
 */
export function interrupted(status: 'running' | 'grading'): RolloutFailure {
  const during = status === 'grading' ? 'being graded' : status
  const message = `the rollout server restarted while the rollout was ${during}; run it again under a new id`
  return { message, category: 'agent_error', cause: undefined }
}

/** The result of delivering a callback: `gave_up` when the time for retries had passed. */
export type DeliveryOutcome = 'acknowledged' | 'refused' | 'gave_up'

/** Whether the receiver has decided; otherwise a stored callback stays pending. */
export function isFinal(outcome: DeliveryOutcome): outcome is 'acknowledged' | 'refused' {
  return outcome !== 'gave_up'
}

/**
 * The result of a lease: each step is taken once, by the first caller. Renewing a lease is allowed in
 * every state and does not change it.
 */
export const leaseSteps = {
  /** The outcome, a lapse and the end of the server compete for this step. */
  decide: { from: 'open', to: 'decided' },
  publish: { from: 'decided', to: 'published' },
  fetch: { from: 'published', to: 'fetched' },
} as const

export type LeaseState = 'open' | (typeof leaseSteps)[keyof typeof leaseSteps]['to']

/** The state of a lease after a step; undefined when the step was already taken, or is too early. */
export function leaseAfter(
  state: LeaseState,
  step: keyof typeof leaseSteps,
): LeaseState | undefined {
  const { from, to } = leaseSteps[step]
  return state === from ? to : undefined
}

/** Who ended a rollout early: its trainer, a process that shuts down, or a lease that was not renewed. */
export type Canceller = 'trainer' | 'shutdown' | 'lease'

const cancellers: Partial<Record<OsmosisErrorCode, Canceller>> = {
  cancelled: 'trainer',
  withdrawn: 'trainer',
  lease_expired: 'lease',
  server_shutdown: 'shutdown',
}

/** Who ended a rollout that failed with this error; undefined when it was not ended early. */
export function cancellerOf(cause: unknown): Canceller | undefined {
  return isOsmosisError(cause) ? cancellers[cause.code] : undefined
}

/** Whether a rollout that failed with this error has the status `cancelled`; a shutdown is a failure. */
export function isCancellation(cause: unknown): boolean {
  const canceller = cancellerOf(cause)
  return canceller === 'trainer' || canceller === 'lease'
}
