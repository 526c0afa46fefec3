import type { ItemEvent } from '../analysis/item-event.ts'
import type { RunRow } from '../analysis/run-manifest.ts'
import { toSummary, trajectoryFacts } from '../analysis/trajectory-facts.ts'
import type { EndedItem } from '../store/run-store.ts'
import type { EvaluationItem, ItemOutcome } from './item-runner.ts'
import { shortenedError } from './shortened-error.ts'

/** Errors stay in memory as long as the run does. Characters. */
const mostInJournal = 8192

/** What eval functions made of an item, each under its name in one of the two. */
export interface ItemScores {
  /** The mean over the kept samples. */
  readonly scores: Readonly<Record<string, number>>
  /** Why there is no score. */
  readonly scoreErrors: Readonly<Record<string, string>>
}

/** What an event says beside the outcome of its item. */
export interface EventContext {
  readonly row: RunRow
  readonly scores: ItemScores
  /** Whether there are two models. */
  readonly isCompared: boolean
  /** Takes secrets out of an error before it is shortened: half a secret cannot be found. */
  readonly redact: <T>(data: T) => T
}

/** An item that has ended, as the journal has it. */
export function toEndedItem(
  item: EvaluationItem,
  outcome: ItemOutcome,
  { row, scores: { scores, scoreErrors }, isCompared, redact }: EventContext,
): EndedItem {
  const { usage } = outcome
  const { metrics, gradingMs } = outcome.kept
  const { trajectories, graded } = redact({
    trajectories: outcome.kept.trajectories,
    graded: outcome.kept.graded,
  })
  const shown = (error: string): string => shortenedError(redact(error), mostInJournal)
  const errorMessage = outcome.errorMessage === null ? null : shown(outcome.errorMessage)
  const errors = Object.entries(scoreErrors).map(([name, error]) => [name, shown(error)] as const)
  const said = trajectoryFacts(Object.values(trajectories ?? {}))
  const { summary, tokens, ...facts } = {
    ...said,
    // Without tokens in the transcripts there is what the answers counted.
    ...(said.tokens === null && usage !== null && usage.totalTokens > 0 ? tokensOf(usage) : {}),
  }
  const event: EndedItem['event'] = {
    row_index: item.rowIndex,
    run_index: item.runIndex,
    source_row_index: item.row.sourceRowIndex,
    ...(isCompared ? { model_tag: item.model } : {}),
    rollout_id: item.rolloutId,
    status: outcome.status,
    reward: outcome.reward,
    tokens,
    duration_ms: toMilliseconds(outcome.durationMs),
    error_type: outcome.errorType,
    error_message: errorMessage,
    row_key: row.key,
    samples: outcome.sampleRewards,
    ...(isEmpty(scores) ? {} : { scores }),
    ...(errors.length === 0 ? {} : { score_errors: Object.fromEntries(errors) }),
    ...facts,
    metrics,
    grading_ms: gradingMs === null ? null : toMilliseconds(gradingMs),
    summary: errorMessage === null ? summary : toSummary(errorMessage),
    ended_at: new Date().toISOString(),
  }
  return { event, trajectories, graded }
}

function tokensOf({
  totalTokens,
  promptTokens,
  completionTokens,
}: NonNullable<ItemOutcome['usage']>): Pick<
  ItemEvent,
  'tokens' | 'prompt_tokens' | 'completion_tokens'
> {
  return { tokens: totalTokens, prompt_tokens: promptTokens, completion_tokens: completionTokens }
}

/** To the microsecond. */
function toMilliseconds(durationMs: number): number {
  return Math.round(durationMs * 1000) / 1000
}

function isEmpty(entries: object): boolean {
  return Object.keys(entries).length === 0
}
