import {
  isEnded,
  reportOf,
  stateAfter,
  transitionOf,
  type ExecutionBackend,
  type GradingOutcome,
  type LifecycleState,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutFailure,
  type RolloutRequest,
  type SamplesById,
  type WorkflowOutcome,
} from '@osmosis/protocol'

import type { graderScripts, workflowScripts } from './contract-scripts.ts'
import { expectEqual, expectMatch, expectThat } from './expectations.ts'

/** The scripts of a rollout and fields of its request. */
export type ScriptedRequest = Partial<RolloutRequest> & {
  /** The script of its workflow. Default: `one-sample`. */
  readonly workflow?: keyof typeof workflowScripts | undefined
  /** The script of its grader. Default: `rewards`. */
  readonly grader?: keyof typeof graderScripts | undefined
}

/** What the events of a rollout said. */
export interface ReadOutcomes {
  /** The events, in order, with their statuses. */
  readonly events: readonly string[]
  readonly completion: WorkflowOutcome
  readonly samples: SamplesById
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

/**
 * Executes one rollout, and checks that each of its events is a transition of the lifecycle, and the last one an end.
 *
 * @param onEvent - awaited for each event, before the next one is asked for
 */
export async function executeScripted(
  backend: ExecutionBackend,
  overrides: ScriptedRequest = {},
  gates: ModelCallGates = {},
  onEvent: (event: RolloutEvent) => void | Promise<void> = () => {},
): Promise<ReadOutcomes> {
  const request = scripted(overrides)
  const events: string[] = []
  let status: LifecycleState = 'queued'
  const report = await reportOf(backend.execute(request, gates), async (event) => {
    const transition = transitionOf(event, request.grade)
    const next = stateAfter({ status, isCancelled: false }, transition)
    expectThat(
      next !== 'stale' && next !== 'after_cancel',
      `an event that may follow ${status}`,
      event,
    )
    status = next
    events.push(event.type === 'started' ? 'started' : `${event.type} ${event.outcome.status}`)
    await onEvent(event)
  })
  expectThat(isEnded(status), 'a last event that ends the rollout', events)
  const { workflow: completion, samples, grading } = report
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
