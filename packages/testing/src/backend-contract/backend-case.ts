import type {
  ExecutionBackend,
  GradingOutcome,
  RolloutObserver,
  RolloutRequest,
  WorkflowOutcome,
} from '@osmosis/runtime'
import type { RolloutSample } from '@osmosis/core'

import type { ContractEntrypoint } from './contract-entrypoints.ts'
import type { graderScripts, workflowScripts } from './contract-scripts.ts'

/** A backend that holds something, e.g. processes, is closed by the suite. */
export type ClosableBackend = ExecutionBackend & { close?(): Promise<void> }

/** What a backend brings to `runBackendContract`. */
export interface BackendUnderTest {
  /** Opens a backend of one of the `contractEntrypoints`. */
  open(entrypoint: ContractEntrypoint): Promise<ClosableBackend>
}

/** Proves one rule. `open` gives the same backend again for the same name, unless a fresh one is asked for. */
export type BackendCase = (
  open: (
    entrypoint: ContractEntrypoint,
    options?: { readonly fresh?: boolean },
  ) => Promise<ExecutionBackend>,
) => Promise<void>

/** What a rollout of the contract does, besides fields of its request. */
export type ScriptedRequest = Partial<RolloutRequest> & {
  /** The script of its workflow. Default: `one-sample`. */
  readonly does?: keyof typeof workflowScripts | undefined
  /** The script of its grader. Default: `rewards`. */
  readonly grades?: keyof typeof graderScripts | undefined
}

/** What an observer was told of a rollout. */
export interface ObservedOutcomes {
  /** Phases and statuses, in order. */
  readonly events: readonly string[]
  readonly completion: WorkflowOutcome
  readonly samples: ReadonlyMap<string, RolloutSample> | undefined
  readonly grading: GradingOutcome | undefined
}

let rollouts = 0

function scripted({ does, grades, ...overrides }: ScriptedRequest = {}): RolloutRequest {
  rollouts += 1
  return {
    rolloutId: `rollout-${rollouts}`,
    initialMessages: [{ role: 'user', content: does ?? 'one-sample' }],
    label: grades ?? 'rewards',
    metadata: null,
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    apiKey: undefined,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: true,
    ...overrides,
  }
}

/** Executes one rollout; `hooks` are called as an observer, and waited for. */
export async function executeScripted(
  backend: ExecutionBackend,
  request: ScriptedRequest = {},
  hooks: Partial<RolloutObserver> = {},
): Promise<ObservedOutcomes> {
  const events: string[] = []
  let completion: WorkflowOutcome | undefined
  let samples: ReadonlyMap<string, RolloutSample> | undefined
  let grading: GradingOutcome | undefined
  await backend.execute(scripted(request), {
    ...hooks,
    phaseChanged: (phase) => {
      events.push(phase)
      hooks.phaseChanged?.(phase)
    },
    workflowFinished: async (outcome, given) => {
      events.push(`workflow ${outcome.status}`)
      completion = outcome
      samples = given
      await hooks.workflowFinished?.(outcome, given)
    },
    gradingFinished: async (outcome) => {
      events.push(`grading ${outcome.status}`)
      grading = outcome
      await hooks.gradingFinished?.(outcome)
    },
  })
  if (completion === undefined) throw new Error('The backend reported no outcome of the workflow.')
  return { events, completion, samples, grading }
}
