import type { ExecutionBackend } from '@osmosis/protocol'

import type { ContractEntrypoint } from './contract-entrypoints.ts'

/** What every backend promises, wherever user code runs. Each rule has exactly one case. */
export const backendRules = {
  'reports-phases':
    'an observer receives each phase, then its outcome, and the samples between them',
  'skips-phases': 'a skipped phase is not reported, and nothing is graded that was not requested',
  'waits-before-first-call':
    'the first model call waits once for the observer, which may refuse it',
  'fails-workflows': 'a failing workflow fails both phases with its message, category and cause',
  'fails-gradings': 'a failing grader leaves the samples without a reward',
  'names-missing-parts': 'a rollout that cannot be graded fails with what is missing',
  'keeps-samples': 'samples are reported unchanged, and with the changes of the grader',
  'survives-uncloneable': 'a value that cannot leave the process is the only one that is lost',
  'keeps-calls': 'a sample keeps its model calls when its conversation cannot be sent',
  'keeps-removed': 'a removed sample needs no reward',
  'keeps-conversations': 'a sample has the conversation and the model calls of its agent',
  'keeps-output': 'graders get the JSON data that run() returned, and the first sample has it',
  'keeps-steps': 'a grader sets one step reward per answered model call, and no other number',
  'follows-wire-settings': 'model calls follow the request, and keep the token data of the answer',
  'knows-groups': 'workflow and grader see the group of the rollout',
  'keeps-partial': 'a failed workflow reports the conversation so far',
  warns: 'an unusual rollout that does not fail has a warning',
  'ends-workflows': 'the deadline ends a workflow that never returns or blocks',
  'ends-withdrawn': 'a 410 from its own policy route ends a rollout that ignores the error',
  'counts-queue': 'the deadline counts time in the queue, and the message names it',
  'ends-graders': 'a grader has a deadline of its own, which keeps the samples',
  'cancels-workflows':
    'cancelling ends queued and running workflows and reports which of the two each one was',
  'cancels-between': 'cancelling before the grading fails only the grading',
  'cancels-gradings': 'cancelling ends a grading, and the workflow stays a success',
  'selects-rollouts': 'a cancel selects rollouts by id, by prefix, or all of them',
  'holds-slots': 'only workflows hold slots, in order of arrival, up to a full queue',
  'holds-grader-slots': 'graders have slots of their own',
  'knows-states': 'the state of an ended rollout can be read',
  'repeats-ids': 'an id may be reused once its rollout has ended or waits for its observer',
  'shuts-down': 'a shutdown fails running and queued rollouts with that reason',
} as const

/** Id of a rule of the contract. */
export type BackendRule = keyof typeof backendRules

/** A backend that holds something, e.g. processes, is closed by the suite. */
export type ClosableBackend = ExecutionBackend & { close?(): Promise<void> }

/** What a backend brings to `runBackendContract`. */
export interface BackendUnderTest {
  /** Opens a backend of one of the `contractEntrypoints`. */
  open(entrypoint: ContractEntrypoint): Promise<ClosableBackend>
}

/** Tests one rule. `open` returns the same backend for the same name, unless it is to be fresh. */
export type BackendCase = (
  open: (
    entrypoint: ContractEntrypoint,
    options?: { readonly fresh?: boolean },
  ) => Promise<ExecutionBackend>,
) => Promise<void>
