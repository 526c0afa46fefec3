import { isDeepStrictEqual } from 'node:util'

import type { CallReport, RecordedTranscript, RolloutRecording } from '@osmosis/controller'
import {
  lastAssistantText,
  type PolicyCall,
  toRolloutSample,
  type RolloutSample,
} from '@osmosis/core'
import {
  toTrajectories,
  type EndedRollout,
  type PhaseFailure,
  type Trajectory,
} from '@osmosis/protocol/trajectory'

import { shortenedError } from '../../analysis/records/error-text.ts'
import type { ItemEvent } from '../../analysis/records/item-event.ts'
import type { RunRow } from '../../analysis/records/run-manifest.ts'
import { average } from '../../analysis/statistics/estimate.ts'
import { toSummary, trajectoryFacts } from '../../analysis/trajectory/trajectory-facts.ts'
import type { GradedRollout, WireConversation, EndedItem } from '../../store/write/run-store.ts'
import type { EvaluationItem, ItemOutcome, ItemRecord } from './item-runner.ts'

/** A rollout as its server reported it, from which its documents are built. */
export interface ReportedRollout extends Pick<
  EndedRollout,
  'rolloutId' | 'initialMessages' | 'label' | 'metadata' | 'extraFields'
> {
  readonly samples: ReadonlyMap<string, ReportedSample>
  /** Why it failed; undefined for a rollout that did not. */
  readonly failure: PhaseFailure | undefined
}

/** A sample as its rollout server reported it. */
type ReportedSample = Pick<RolloutSample, 'id' | 'messages'> &
  Partial<
    Pick<RolloutSample, 'label' | 'reward' | 'removeSample'> & {
      readonly metrics: Readonly<Record<string, unknown>>
      readonly extraFields: Readonly<Record<string, unknown>>
      readonly calls: readonly CallReport[]
    }
  >

/** Of an error in the document of a rollout. Characters. */
const maxDocumentError = 65_536

/** The name of a conversation without a sample id. */
export const unnamedSample = 'sample'

/**
 * The documents of a rollout: its reported samples with the model calls recorded under their ids, and any
 * other recorded conversations. Null when there are neither.
 */
export function transcriptsOf(
  { samples, failure, ...rollout }: ReportedRollout,
  recording: RolloutRecording | undefined,
): Readonly<Record<string, Trajectory>> | null {
  const recorded = new Map(recording?.samples())
  const conversations = new Map<string, RolloutSample>()
  for (const [id, sample] of samples) {
    const name = recordedAs(id, samples, recorded)
    conversations.set(id, toConversation(id, sample, recorded.get(name)))
    recorded.delete(name)
  }
  for (const [id, transcript] of recorded) {
    const name = id === '' && !conversations.has(unnamedSample) ? unnamedSample : id
    conversations.set(name, toConversation(name, { id: name, messages: [] }, transcript))
  }
  if (conversations.size === 0) return null
  const failures =
    failure === undefined
      ? []
      : [{ ...failure, message: shortenedError(failure.message, maxDocumentError) }]
  const documents = toTrajectories({
    ...rollout,
    samples: conversations,
    failures,
    warnings: [],
    report: null,
  })
  return Object.fromEntries(
    documents.map(({ sampleId, trajectory }) => [sampleId ?? unnamedSample, trajectory]),
  )
}

/** The only recorded conversation belongs to the only sample, even if their names differ. */
function recordedAs(
  id: string,
  samples: ReadonlyMap<string, unknown>,
  recorded: ReadonlyMap<string, unknown>,
): string {
  const isOnly = samples.size === 1 && recorded.size === 1
  return isOnly ? ([...recorded.keys()][0] ?? id) : id
}

/** The samples as they were recorded at the policy. */
export function wireConversations(
  samples: ReadonlyMap<string, Pick<ReportedSample, 'messages'>>,
  recording: RolloutRecording | undefined,
): Pick<GradedRollout, 'wire'> {
  const recorded = recording?.samples() ?? new Map<string, RecordedTranscript>()
  const wire = [...samples].flatMap(([id, sample]): [string, WireConversation][] => {
    const transcript = recorded.get(recordedAs(id, samples, recorded))
    if (transcript === undefined) return []
    const { messages, tools, trained } = transcript
    // Most frameworks have a message form of their own; equal messages need not be stored twice.
    const isSame = isDeepStrictEqual(messages, sample.messages)
    const conversation = {
      ...(isSame ? {} : { messages }),
      ...(tools === null ? {} : { tools }),
      ...(isTrainedWhole(transcript) ? {} : { trained }),
    }
    return [[id, conversation]]
  })
  return wire.length === 0 ? {} : { wire: Object.fromEntries(wire) }
}

/** What a stored sample answered, as its grader reads it: messages of a framework may have a refusal as text. */
export function storedAnswer({ samples, wire }: GradedRollout, id: string): string {
  const messages = samples[id]?.messages ?? []
  return lastAssistantText({ messages, trajectoryMessages: wire?.[id]?.messages ?? null })
}

/** Whether every message of the assistant is training data, and nothing else is. */
function isTrainedWhole({ messages, trained }: RecordedTranscript): boolean {
  const [only, ...others] = trained
  if (only === undefined || others.length > 0) return false
  const written = messages.filter(({ role }) => role === 'assistant').length
  return only.messages.length === messages.length && only.answers.length === written
}

function toConversation(
  id: string,
  { messages, metrics = {}, extraFields = {}, calls: reports = [], ...rest }: ReportedSample,
  transcript: RecordedTranscript | undefined,
): RolloutSample {
  const { messages: wire = null, calls = [], otherConversations = [] } = transcript ?? {}
  return {
    ...toRolloutSample({ id, messages, metrics: { ...metrics }, trajectoryMessages: wire }),
    ...rest,
    id,
    calls,
    stepRewards: stepRewardsOf(reports, calls),
    extraFields: {
      ...(transcript?.historyRewritten ? { history_rewritten: true } : {}),
      ...(transcript?.userAgent ? { user_agent: transcript.userAgent } : {}),
      ...(otherConversations.length === 0 ? {} : { other_conversations: otherConversations }),
      ...extraFields,
    },
  }
}

/** The step rewards of samples, by sample id, for the model calls that were recorded. */
export function recordedStepRewards(
  samples: ReadonlyMap<string, Pick<ReportedSample, 'calls'>>,
  recording: RolloutRecording | undefined,
): Pick<ItemOutcome, 'stepRewards'> {
  const recorded = recording?.samples() ?? new Map<string, RecordedTranscript>()
  const rewards = [...samples].flatMap(([id, { calls: reports = [] }]) => {
    const { calls = [] } = recorded.get(recordedAs(id, samples, recorded)) ?? {}
    const own = stepRewardsOf(reports, calls)
    return own === null ? [] : [[id, own] as const]
  })
  return rewards.length === 0 ? {} : { stepRewards: Object.fromEntries(rewards) }
}

/**
 * The step reward of each answered call; null when the grader set none. An answer that the agent did not read to
 * its end is answered for the policy and not for the server: then calls are recognised by their ids.
 */
function stepRewardsOf(
  reports: readonly CallReport[],
  calls: readonly PolicyCall[],
): (number | null)[] | null {
  if (reports.every(({ stepReward }) => stepReward === null)) return null
  const answered = calls.filter(({ error }) => error === null)
  if (answered.length === reports.length) return reports.map(({ stepReward }) => stepReward)
  const byId = new Map(reports.map(({ id, stepReward }) => [id, stepReward]))
  return answered.map(({ id }) => (id === null ? null : (byId.get(id) ?? null)))
}

/** The numeric metrics of samples; each is the mean over the samples that have it. */
export function meanMetrics(
  samples: readonly Readonly<Record<string, unknown>>[],
): Record<string, number> {
  const values = new Map<string, number[]>()
  for (const [name, value] of samples.flatMap((metrics) => Object.entries(metrics))) {
    if (typeof value !== 'number' || !Number.isFinite(value)) continue
    values.set(name, [...(values.get(name) ?? []), value])
  }
  return Object.fromEntries([...values].map(([name, of]) => [name, average(of)]))
}

/** The record of an item that never became a rollout. */
export const emptyRecord: ItemRecord = {
  trajectories: null,
  graded: null,
  metrics: {},
  gradingMs: null,
  trouble: null,
}

/** Of an error in an event, which stays in memory. Characters. */
const maxJournalError = 8192

/** The results of eval functions for an item; the name of each is in one of the two. */
export interface ItemScores {
  /** The mean over the samples in training. */
  readonly scores: Readonly<Record<string, number>>
  /** Why a score is missing. */
  readonly scoreErrors: Readonly<Record<string, string>>
}

/** Input of {@link toEndedItem} beside the outcome. */
export interface EventContext {
  readonly row: RunRow
  readonly scores: ItemScores
  /** Removes secrets. Applied to an error before it is shortened, because half a secret is not found. */
  readonly redact: <T>(data: T) => T
}

/** Converts the outcome of an item to its stored form. */
export function toEndedItem(
  item: EvaluationItem,
  outcome: ItemOutcome,
  { row, scores: { scores, scoreErrors }, redact }: EventContext,
): EndedItem {
  const { usage } = outcome
  const { metrics, gradingMs } = outcome.record
  const { trajectories, graded } = redact({
    trajectories: outcome.record.trajectories,
    graded: outcome.record.graded,
  })
  const shown = (error: string): string => shortenedError(redact(error), maxJournalError)
  const errorMessage = outcome.errorMessage === null ? null : shown(outcome.errorMessage)
  const errors = Object.entries(scoreErrors).map(([name, error]) => [name, shown(error)] as const)
  const stored = trajectoryFacts(Object.values(trajectories ?? {}))
  const { summary, tokens, ...facts } = {
    ...stored,
    // Without counts in the transcripts, use those of the answers.
    ...(stored.tokens === null && usage !== null && usage.totalTokens > 0 ? tokensOf(usage) : {}),
  }
  const event: EndedItem['event'] = {
    row_index: item.rowIndex,
    run_index: item.runIndex,
    source_row_index: item.row.sourceRowIndex,
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
