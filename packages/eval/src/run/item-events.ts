import type { ItemEvent } from '../analysis/item-event.ts'
import { toSummary, trajectoryFacts } from '../analysis/trajectory-facts.ts'
import type { RunRow } from '../analysis/run-manifest.ts'
import type { EndedItem } from '../store/run-store.ts'
import type { ItemRecord } from './item-record.ts'
import type { KeptItem } from './kept-item.ts'

/** The end of an item as the journal has it. `isCompared`: there are two models. */
export function toEndedItem(
  record: ItemRecord,
  { trajectories, graded, metrics, gradingMs }: KeptItem,
  { row, isCompared }: { readonly row: RunRow; readonly isCompared: boolean },
): EndedItem {
  const { usage, errorMessage, scores, scoreErrors } = record
  const said = trajectoryFacts(Object.values(trajectories ?? {}))
  const { summary, tokens, ...facts } = {
    ...said,
    // Without tokens in the transcripts there is what the answers counted.
    ...(said.tokens === null && usage !== null && usage.totalTokens > 0 ? tokensOf(usage) : {}),
  }
  const event: EndedItem['event'] = {
    row_index: record.rowIndex,
    run_index: record.runIndex,
    source_row_index: record.sourceRowIndex,
    ...(isCompared ? { model_tag: record.model } : {}),
    rollout_id: record.rolloutId,
    status: record.status,
    reward: record.reward,
    tokens,
    duration_ms: toMilliseconds(record.durationMs),
    error_type: record.errorType,
    error_message: errorMessage,
    row_key: row.key,
    samples: record.sampleRewards,
    ...(isEmpty(scores) ? {} : { scores }),
    ...(isEmpty(scoreErrors) ? {} : { score_errors: scoreErrors }),
    ...facts,
    metrics,
    grading_ms: gradingMs === null ? null : toMilliseconds(gradingMs),
    summary: errorMessage === null ? summary : toSummary(errorMessage),
    ended_at: new Date().toISOString(),
  }
  return { event, trajectories, graded }
}

/** The record of an item that a journal has. */
export function fromItemEvent(event: ItemEvent): ItemRecord {
  const { tokens, prompt_tokens: promptTokens, completion_tokens: completionTokens } = event
  const isCounted = tokens !== null || event.calls > 0
  return {
    rowIndex: event.row_index,
    sourceRowIndex: event.source_row_index,
    runIndex: event.run_index,
    model: event.model_tag ?? 'primary',
    rolloutId: event.rollout_id,
    status: event.status,
    reward: event.reward,
    sampleRewards: event.samples,
    usage: isCounted
      ? {
          promptTokens: promptTokens ?? 0,
          completionTokens: completionTokens ?? 0,
          totalTokens: tokens ?? 0,
        }
      : null,
    durationMs: event.duration_ms,
    errorType: event.error_type,
    errorMessage: event.error_message,
    scores: event.scores ?? {},
    scoreErrors: event.score_errors ?? {},
  }
}

function tokensOf({
  totalTokens,
  promptTokens,
  completionTokens,
}: NonNullable<ItemRecord['usage']>): Pick<
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
