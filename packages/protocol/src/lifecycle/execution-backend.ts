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

/** Receives the outcomes of a rollout. Each is reported at most once, in this order. */
export interface RolloutObserver {
  /** A phase starts. Not called for a phase that is skipped. Never throws. */
  phaseChanged?(phase: 'running' | 'grading'): void
  /**
   * Awaited once, before the first model call of the rollout is sent: from then on it cannot run again
   * under its id without mixing two trajectories. When it rejects, model calls fail with its error.
   */
  beforeFirstModelCall?(): Promise<void>
  /**
   * Awaited before each model call, the first one's {@link RolloutObserver.beforeFirstModelCall}
   * included, so that the calls of many processes can be counted and bounded together. When it
   * rejects, the call fails with its error. Backends on other machines do not call it.
   *
   * @returns a function that is called once, when nothing more is read of the answer
   */
  modelCallBegins?(call: StartingModelCall): Promise<() => void>
  /**
   * Grading waits for what this returns; no slot is held meanwhile.
   *
   * @param samples - the samples of the workflow, by id, before grading
   */
  workflowFinished(outcome: WorkflowOutcome, samples?: SamplesById): Promise<void>
  /** Not called when the request did not ask for grading. */
  gradingFinished(outcome: GradingOutcome): Promise<void>
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

/** Executes rollouts, independently of HTTP and of how outcomes are delivered. */
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
  /** Runs and grades one rollout. Never rejects: every outcome is reported to `observer`. */
  execute(request: RolloutRequest, observer: RolloutObserver): Promise<void>
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
