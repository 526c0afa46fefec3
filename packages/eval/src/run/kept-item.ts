import type { PolicyTrouble, RolloutRecording } from '@osmosis/controller'
import { toRolloutSample, type RolloutSample } from '@osmosis/core'
import {
  toTrajectories,
  type EndedRollout,
  type PhaseFailure,
  type Trajectory,
} from '@osmosis/core/trajectory'

import type { GradedRollout } from '../store/run-store.ts'

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
    const isOnly = samples.size === 1 && heard.size === 1
    // A lone conversation is that of a lone sample, whatever either is called.
    const name = isOnly ? ([...heard.keys()][0] ?? id) : id
    said.set(id, spoken(id, sample, heard.get(name)))
    heard.delete(name)
  }
  for (const [id, transcript] of heard) {
    const name = id === '' && !said.has(namelessSample) ? namelessSample : id
    said.set(name, spoken(name, { id: name, messages: [] }, transcript))
  }
  if (said.size === 0) return null
  const failures = failure === undefined ? [] : [failure]
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

type Transcript =
  ReturnType<RolloutRecording['samples']> extends ReadonlyMap<string, infer T> ? T : never

function spoken(
  id: string,
  { messages, metrics = {}, extraFields = {}, ...rest }: ReportedSample,
  transcript: Transcript | undefined,
): RolloutSample {
  const { messages: wire = null, calls = [], otherConversations = [] } = transcript ?? {}
  return {
    ...toRolloutSample({ id, messages, metrics: { ...metrics }, trajectoryMessages: wire }),
    ...rest,
    id,
    calls,
    extraFields: {
      ...(transcript?.historyRewritten ? { history_rewritten: true } : {}),
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
