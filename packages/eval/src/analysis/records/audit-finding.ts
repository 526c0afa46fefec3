import type { ItemEvent, ItemReference } from './item-event.ts'

/**
 * What can be wrong with a pass. `same-words`: its last text passes at five rows or more with different labels.
 * `no-tools`: it called no tool, and most other attempts at its row, or most passes, did. `label-shown`: the agent
 * could read the label. `candidates`: the answer lists many, with the label among them. `grader-error`: an
 * error of the grader is known. `no-label`: its row has no answer, and every graded rollout at such rows passes.
 * `no-evidence`: no transcript, no final answer, or one that is cut off.
 */
export const auditChecks = [
  'same-words',
  'no-tools',
  'label-shown',
  'candidates',
  'grader-error',
  'no-label',
  'no-evidence',
] as const
/** One of {@link auditChecks}. */
export type AuditCheck = (typeof auditChecks)[number]

/** What a reviewer can decide about a finding. */
export const auditVerdicts = ['earned', 'hacked', 'unsure'] as const

/** A line of `verdicts.jsonl`: what a reviewer decided about a finding. The last one counts. */
export interface AuditVerdict extends ItemReference {
  readonly rollout_id: string
  readonly check: AuditCheck
  /** The reward, or score, that was reviewed. A rollout that is graded otherwise is open again. */
  readonly value: number
  readonly verdict: (typeof auditVerdicts)[number]
  /** The reason. */
  readonly because: string
  /** The name of the reviewer. */
  readonly by: string
  /** ISO 8601, UTC. */
  readonly at: string
}

/** A pass that may be reward hacking. */
export interface AuditFinding {
  /** Rollout and check, such as `12.1:no-tools`; the same in each audit of the run. */
  readonly id: string
  readonly check: AuditCheck
  readonly event: ItemEvent
  /** The reward, or score, with which it passed. */
  readonly value: number
  /** Why, on one line of at most 240 characters. */
  readonly evidence: string
  /** Null while it is open. */
  readonly verdict: AuditVerdict | null
}
