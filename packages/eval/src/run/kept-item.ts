import { isDeepStrictEqual } from 'node:util'

import type { PolicyTrouble, RecordedTranscript, RolloutRecording } from '@osmosis/controller'
import { toRolloutSample, type RolloutSample } from '@osmosis/core'
import {
  toTrajectories,
  type EndedRollout,
  type PhaseFailure,
  type Trajectory,
} from '@osmosis/runtime/trajectory'

import type { GradedRollout, WireConversation } from '../store/run-store.ts'
import { shortenedError } from './shortened-error.ts'

/** What is kept of an item beside its figures. */
export interface KeptItem {
  /** What was said, by sample id; null when nothing was. */
  readonly trajectories: Readonly<Record<string, Trajectory>> | null
  /** What the grader saw; null when the rollout gave nothing to grade. */
  readonly graded: GradedRollout | null
  /** Metrics of the kept samples; of several the mean. */
  readonly metrics: Readonly<Record<string, number>>
  /** Milliseconds; null when nothing was graded, or that is not known. */
  readonly gradingMs: number | null
  /** How the policy let the rollout down; null when it did not, or nobody recorded it. */
  readonly trouble: PolicyTrouble | null
}

/** What is known of a rollout when its transcripts are made. */
export interface SpokenRollout extends Pick<
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
    }
  >

/** Of an error in the document of a rollout, which is read alone. Characters. */
const mostInDocument = 65_536

/** What a conversation is called that nobody gave a name. */
export const namelessSample = 'sample'

/**
 * The documents of a rollout: its samples as they were reported, with what was heard at the policy under
 * their ids, and whatever else was heard. Null when there is nothing of either.
 */
export function transcriptsOf(
  { samples, failure, ...rollout }: SpokenRollout,
  recording: RolloutRecording | undefined,
): Readonly<Record<string, Trajectory>> | null {
  const heard = new Map(recording?.samples())
  const said = new Map<string, RolloutSample>()
  for (const [id, sample] of samples) {
    const name = heardAs(id, samples, heard)
    said.set(id, spoken(id, sample, heard.get(name)))
    heard.delete(name)
  }
  for (const [id, transcript] of heard) {
    const name = id === '' && !said.has(namelessSample) ? namelessSample : id
    said.set(name, spoken(name, { id: name, messages: [] }, transcript))
  }
  if (said.size === 0) return null
  const failures =
    failure === undefined
      ? []
      : [{ ...failure, message: shortenedError(failure.message, mostInDocument) }]
  const documents = toTrajectories({
    ...rollout,
    samples: said,
    failures,
    warnings: [],
    report: null,
  })
  return Object.fromEntries(
    documents.map(({ sampleId, trajectory }) => [sampleId ?? namelessSample, trajectory]),
  )
}

/** A lone conversation is that of a lone sample, whatever either is called. */
function heardAs(
  id: string,
  samples: ReadonlyMap<string, unknown>,
  heard: ReadonlyMap<string, unknown>,
): string {
  const isOnly = samples.size === 1 && heard.size === 1
  return isOnly ? ([...heard.keys()][0] ?? id) : id
}

/** The samples as they were heard at the policy. */
export function wireOf(
  samples: ReadonlyMap<string, Pick<ReportedSample, 'messages'>>,
  recording: RolloutRecording | undefined,
): Pick<GradedRollout, 'wire'> {
  const heard = recording?.samples() ?? new Map<string, RecordedTranscript>()
  const wire = [...samples].flatMap(([id, sample]): [string, WireConversation][] => {
    const transcript = heard.get(heardAs(id, samples, heard))
    if (transcript === undefined) return []
    const { messages, tools } = transcript
    // Most frameworks keep them in a form of their own; the others need not be written twice.
    const isSame = isDeepStrictEqual(messages, sample.messages)
    return [[id, { ...(isSame ? {} : { messages }), ...(tools === null ? {} : { tools }) }]]
  })
  return wire.length === 0 ? {} : { wire: Object.fromEntries(wire) }
}

function spoken(
  id: string,
  { messages, metrics = {}, extraFields = {}, ...rest }: ReportedSample,
  transcript: RecordedTranscript | undefined,
): RolloutSample {
  const { messages: wire = null, calls = [], otherConversations = [] } = transcript ?? {}
  return {
    ...toRolloutSample({ id, messages, metrics: { ...metrics }, trajectoryMessages: wire }),
    ...rest,
    id,
    calls,
    extraFields: {
      ...(transcript?.historyRewritten ? { history_rewritten: true } : {}),
      ...(transcript?.userAgent ? { user_agent: transcript.userAgent } : {}),
      ...(otherConversations.length === 0 ? {} : { other_conversations: otherConversations }),
      ...extraFields,
    },
  }
}

/** The numbers among the metrics of samples; of several the mean over those that have it. */
export function meanMetrics(
  samples: readonly Readonly<Record<string, unknown>>[],
): Record<string, number> {
  const values = new Map<string, number[]>()
  for (const [name, value] of samples.flatMap((metrics) => Object.entries(metrics))) {
    if (typeof value !== 'number' || !Number.isFinite(value)) continue
    values.set(name, [...(values.get(name) ?? []), value])
  }
  return Object.fromEntries(
    [...values].map(([name, of]) => [name, of.reduce((sum, one) => sum + one, 0) / of.length]),
  )
}

/** Of an item that never became a rollout. */
export const nothingKept: KeptItem = {
  trajectories: null,
  graded: null,
  metrics: {},
  gradingMs: null,
  trouble: null,
}
