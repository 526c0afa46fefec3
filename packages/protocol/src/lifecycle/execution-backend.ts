import type {
  ErrorCategory,
  OsmosisError,
  EgressOptions,
  PolicyCall,
  StartingModelCall,
  PolicyWire,
  RolloutSample,
  RolloutGroup,
  PromptMessage,
} from '@osmosis/core'
import type { EndpointNames } from '@osmosis/core/http'

import type { CancelDisposition, RolloutStatus } from '../wire/rollout-protocol.ts'

/** One rollout to execute. */
export interface RolloutRequest {
  readonly rolloutId: string
  /** The row's prompt, in chat completions form. */
  readonly initialMessages: readonly PromptMessage[]
  readonly label: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** Base URL of the policy. */
  readonly chatCompletionsUrl: string
  /** Bearer of the policy. */
  readonly apiKey: string | undefined
  /** The form of model calls that the policy accepts. Default: streaming, see {@link PolicyWire}. */
  readonly wire?: PolicyWire | undefined
  /** What the caller calls the address and the key, for messages. Default: the names of these fields. */
  readonly endpointNames?: EndpointNames | undefined
  /** The attempts at one row that this rollout is one of. Default: none. */
  readonly group?: RolloutGroup | undefined
  /**
   * Categories of failures after which the caller runs this attempt again, so that its group continues
   * to wait for it. Default: none.
   */
  readonly retriedAfter?: readonly ErrorCategory[] | undefined
  /** Seconds the workflow may take, counted from `execute`: time in the queue is part of it. */
  readonly agentTimeoutSeconds: number | null
  /**
   * Seconds that the rollout was queued elsewhere before `execute`; they count towards the workflow's
   * time as well. Default: 0.
   */
  readonly queuedSeconds?: number | undefined
  /** Seconds the grader may take. */
  readonly graderTimeoutSeconds: number | null
  /** The trace that the rollout belongs to, as the headers `traceparent` and `tracestate`. Default: none. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined
  /** Whether the caller wants rewards; otherwise the grader is not run. */
  readonly grade: boolean
}

/** Why a phase failed. */
export interface RolloutFailure {
  readonly message: string
  readonly category: ErrorCategory
  /** What was thrown. */
  readonly cause: unknown
  /** Whether the backend broke, and not user code. Default: false. */
  readonly isOfBackend?: boolean
}

/** The samples of a rollout, by sample id. */
export type SamplesById = ReadonlyMap<string, RolloutSample>

/** How the workflow of a rollout ended. */
export interface WorkflowOutcome {
  readonly status: 'success' | 'failure'
  readonly failure: RolloutFailure | null
  /** Problems that do not fail the rollout, one sentence each; to be logged. */
  readonly warnings: readonly string[]
  /**
   * Of a failure: the messages that could still be collected, by sample id, so that people can read
   * them. They are never graded. Never rejects; backends may leave it out.
   */
  readonly partialSamples?: Promise<SamplesById> | undefined
  /** Of a success: model calls under ids that gave no sample. To be counted; backends may leave it out. */
  readonly otherCalls?: readonly PolicyCall[] | undefined
}

/** How the grading of a rollout ended. */
export interface GradingOutcome {
  readonly status: 'success' | 'failure'
  readonly failure: RolloutFailure | null
  /** By sample id; empty when the workflow failed. A failed grading has its samples. */
  readonly samples: SamplesById
}

/**
 * What happens in a rollout, in this order. A failed workflow is the last event; so is a workflow whose
 * request did not ask for grading. Each event is a transition of the lifecycle, see `transitionOf`.
 */
export type RolloutEvent =
  /** User code begins when the event after this one is asked for. Absent when the rollout ends before that. */
  | { readonly type: 'started' }
  /** The workflow has ended. `samples` are those before grading, and empty when it failed. */
  | {
      readonly type: 'workflow'
      readonly outcome: WorkflowOutcome
      readonly samples: SamplesById
      /** Continue the rollout's trace in requests about it. Default: those of the request. */
      readonly traceHeaders?: Readonly<Record<string, string>> | undefined
    }
  | { readonly type: 'graded'; readonly outcome: GradingOutcome }

/**
 * A function through which events pass on the way to their reader: it counts, logs or stores what it sees.
 * It passes on every event, and asks for the next one only when it is asked itself.
 */
export type RolloutStage = (
  events: AsyncIterable<RolloutEvent>,
  request: RolloutRequest,
) => AsyncIterable<RolloutEvent>

/** Decides about the model calls of a rollout before they are sent. */
export interface ModelCallGates {
  /**
   * Awaited once, before the first model call of the rollout is sent: from then on it cannot run again
   * under its id without mixing two trajectories. When it rejects, model calls fail with its error.
   */
  readonly beforeFirstModelCall?: (() => Promise<void>) | undefined
  /**
   * Awaited before each model call, the first one's {@link ModelCallGates.beforeFirstModelCall}
   * included, so that the calls of many processes can be counted and bounded together. When it
   * rejects, the call fails with its error. Backends on other machines do not call it. It resolves with a
   * function that is called once, when nothing more is read of the answer.
   */
  readonly modelCallBegins?: ((call: StartingModelCall) => Promise<() => void>) | undefined
}

/** The state of a rollout. */
export interface RolloutState {
  readonly status: RolloutStatus
  /** The single sample's reward; null with several, and until it is graded. */
  readonly reward: number | null
  readonly errorMessage: string | null
}

/** How busy a backend is. */
export interface BackendLoad {
  /** Null: unlimited. */
  readonly maxConcurrent: number | null
  readonly queued: number
  readonly running: number
}

/** The processes that a backend runs user code in. */
export interface BackendWorkers {
  /** How many there are. */
  readonly running: number
  /** How many were replaced so far, by the reason why they ended, in the backend's own words. */
  readonly restarts: Readonly<Record<string, number>>
  /** Memory of all running ones, as last reported. Bytes. */
  readonly residentBytes: number
  /** CPU time, user and system, of all that ever ran, as last reported. Seconds. */
  readonly cpuSeconds: number
}

/** Which rollouts to cancel. */
export type RolloutSelector =
  | { readonly ids: readonly string[] }
  | { readonly prefix: string }
  | { readonly all: true }

/**
 * Executes rollouts, independently of HTTP and of how outcomes are delivered.
 *
 * A rollout is one stream of events. What a server does with a rollout on its way is a list of
 * {@link RolloutStage}s; what it does in the end is a loop over the events: callbacks, a lease, an answer.
 */
export interface ExecutionBackend {
  /** Where rollouts store files, each in a folder named after its id. Default: rollouts have no folders. */
  readonly artifactRoot?: string | undefined
  /**
   * Where its rollouts may connect to, and the server that delivers their results. Default: see
   * {@link EgressOptions}.
   */
  readonly egress?: EgressOptions | undefined
  /**
   * Whether it grades all attempts of a group together, so that it must execute all of them. Default:
   * false.
   */
  readonly gradesGroups?: boolean | undefined
  /**
   * Runs and grades one rollout. It begins when the first event is asked for. Grading waits until the event
   * after the workflow is asked for, and no slot is held meanwhile: a reader that delivers the workflow's end
   * decides when its grading begins. A reader that stops early cancels the rollout. Every failure of user code
   * is an event; only a broken backend throws, see `settled` of `@osmosis/server`.
   */
  execute(request: RolloutRequest, gates?: ModelCallGates): AsyncIterable<RolloutEvent>
  /** Whether one more rollout may be submitted now. */
  hasCapacity(): boolean
  load(): BackendLoad
  /** Backends without processes of their own leave it out. */
  workers?(): BackendWorkers
  status(rolloutId: string): RolloutState
  /**
   * Cancels rollouts that have not ended. The result has every id of an `ids` selector, and for
   * other selectors the ids of the rollouts that were cancelled.
   *
   * @param reason - what they fail with. Default: `cancelled`
   */
  cancel(selector: RolloutSelector, reason?: OsmosisError): Map<string, CancelDisposition>
  /** Fails everything that is still in progress because the process is about to end. */
  shutdown(): void
}
