import { AsyncLocalStorage } from 'node:async_hooks'

import type { RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

import type { RunAnswers } from './policy-faults.ts'
import type { SessionRecord } from './session-record.ts'

/** One call of `Runner.run` inside a rollout. */
export interface RunScope {
  /** The session whose sample the run's model calls belong to; undefined until one is known. */
  record: SessionRecord | undefined
  /** A session of another class was passed, which may be a wrapper around one of ours. */
  readonly mayWrapSession: boolean
  /** The run that this one was started in, by a tool or a guardrail. */
  readonly parent: RunScope | undefined
  /** What the policy answered in it that is training data. */
  readonly answers: RunAnswers
}

const scopes = sharedByCopies('openai-agents.run-scopes', () => new AsyncLocalStorage<RunScope>())

/** The innermost run that this code is part of; undefined outside of any. */
export function currentScope(): RunScope | undefined {
  return scopes.getStore()
}

/**
 * Runs `start` as a run of its own. Context flows down only, into what is started: a run sees its
 * session in every model call, and neither its caller nor its siblings do.
 */
export function withScope<T>(scope: RunScope, start: () => T): T {
  return scopes.run(scope, start)
}

/**
 * The session of the innermost run that has one. A run that was started without a session, as
 * agents used as tools are, belongs to the sample of the run around it.
 */
export function currentRecord(): SessionRecord | undefined {
  for (let scope = currentScope(); scope; scope = scope.parent) {
    if (scope.record) return scope.record
  }
  return undefined
}

/**
 * Called when a session is read or written. A run that was given a foreign session finds its own
 * this way, when that one wraps it. Never replaces a session: reading another one inside a tool
 * changes nothing.
 */
export function sessionTouched(record: SessionRecord): void {
  const scope = currentScope()
  if (scope?.mayWrapSession) scope.record ??= record
}

/** Notes an answer that the policy of a rollout gave in the innermost run. */
export function noteAnswer(rollout: RolloutContext, responseId: string): void {
  const answers = currentScope()?.answers
  if (answers === undefined) return
  answers.rollout = rollout
  answers.ids.add(responseId)
}
