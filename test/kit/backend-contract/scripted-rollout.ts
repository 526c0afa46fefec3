import type {
  ExecutionBackend,
  GradingOutcome,
  RolloutFailure,
  RolloutObserver,
  RolloutRequest,
  WorkflowOutcome,
} from '@osmosis/protocol'
import type { RolloutSample } from '@osmosis/core'

import { expectEqual, expectMatch, expectThat } from './expectations.ts'
import type { graderScripts, workflowScripts } from './contract-scripts.ts'

/** The scripts of a rollout and fields of its request. */
export type ScriptedRequest = Partial<RolloutRequest> & {
  /** The script of its workflow. Default: `one-sample`. */
  readonly workflow?: keyof typeof workflowScripts | undefined
  /** The script of its grader. Default: `rewards`. */
  readonly grader?: keyof typeof graderScripts | undefined
}

/** What an observer received of a rollout. */
export interface ObservedOutcomes {
  /** Phases and statuses, in order. */
  readonly events: readonly string[]
  readonly completion: WorkflowOutcome
  readonly samples: ReadonlyMap<string, RolloutSample> | undefined
  readonly grading: GradingOutcome | undefined
}

let rollouts = 0

function scripted({ workflow, grader, ...overrides }: ScriptedRequest = {}): RolloutRequest {
  rollouts += 1
  return {
    rolloutId: `rollout-${rollouts}`,
    initialMessages: [{ role: 'user', content: workflow ?? 'one-sample' }],
    label: grader ?? 'rewards',
    metadata: null,
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    apiKey: undefined,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: true,
    ...overrides,
  }
}

/** Executes one rollout; `hooks` are called as an observer and awaited. */
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
    workflowFinished: async (outcome, reported) => {
      events.push(`workflow ${outcome.status}`)
      completion = outcome
      samples = reported
      await hooks.workflowFinished?.(outcome, reported)
    },
    gradingFinished: async (outcome) => {
      events.push(`grading ${outcome.status}`)
      grading = outcome
      await hooks.gradingFinished?.(outcome)
    },
  })
  expectThat(
    completion !== undefined,
    'the backend to report an outcome of the workflow',
    completion,
  )
  return { events, completion, samples, grading }
}

/** Compares message and category of a failure. */
export function expectFailure(
  what: string,
  failure: RolloutFailure | null | undefined,
  message: string | RegExp,
  category: string,
): void {
  const received = withoutPlace(failure?.message)
  if (typeof message === 'string') expectEqual(`the failure of ${what}`, received, message)
  else expectMatch(`the failure of ${what}`, received, message)
  expectEqual(`the failure category of ${what}`, failure?.category, category)
}

/** The message of a failure without the file and line of the user's code. */
export function withoutPlace(message: string | null | undefined): string | undefined {
  return message?.replace(/ at \S+:\d+(?=: )/, '')
}
