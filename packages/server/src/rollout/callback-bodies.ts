import { randomUUID } from 'node:crypto'

import { errorMessage, isOsmosisError, type PolicyCall, type RolloutSample } from '@osmosis/core'
import type { GradingOutcome, RolloutFailure, WorkflowOutcome } from '@osmosis/protocol'
import { toTelemetryJson } from '@osmosis/protocol/http'
import { wrongIdsOf } from '@osmosis/protocol/trajectory'
import {
  rolloutLossSchema,
  type CallReportBody,
  type CompletionCallbackBody,
  type GraderCallbackBody,
  type RolloutLoss,
  type SampleBody,
} from '@osmosis/protocol/wire'

/** A body in pieces. Each conversation is represented by the key of its sample. */
export type BodyParts = readonly (string | { readonly sample: string })[]

/** A callback body, ready to be sent. */
export interface EncodedBody {
  readonly json: string
  /** The same, for a store that has the conversations already: each is what `conversationJson` returns. */
  readonly parts: BodyParts
  /** What had to be omitted, one sentence; null when the body is complete. */
  readonly warning: string | null
}

/** The body with the outcome of the workflow. */
export function completionBody(
  rolloutId: string,
  { status, failure }: WorkflowOutcome,
): EncodedBody {
  const body: Required<CompletionCallbackBody> = {
    rollout_id: rolloutId,
    status,
    extra_fields: lossFields(failure),
    ...failureFields(failure),
  }
  const json = JSON.stringify(body)
  return { json, parts: [json], warning: null }
}

/** The body with the rewards, in the form that both generations of callbacks read. */
export function graderBody(rolloutId: string, outcome: GradingOutcome): EncodedBody {
  return encodeSamples(
    outcome,
    (bodies) =>
      ({
        rollout_id: rolloutId,
        status: outcome.status,
        samples: Object.fromEntries(bodies),
        sample: onlyOne(bodies),
        ...failureFields(outcome.failure),
        ...extraFields(outcome),
      }) satisfies GraderCallbackBody,
  )
}

/** The answered model calls of a sample, each with what is reported about it. */
export function callReports({
  calls,
  stepRewards,
}: Pick<RolloutSample, 'calls' | 'stepRewards'>): [PolicyCall, CallReportBody][] {
  const answered = calls.filter(({ error }) => error === null)
  return answered.map((call, at) => {
    const { id, version, purpose, sampling } = call
    const trainable = call.trainable && wrongIdsOf(call) === undefined
    const step_reward = stepRewards?.[at] ?? null
    return [call, { id, version, purpose, trainable, sampling, step_reward }]
  })
}

/** The model calls of a success, or what lost a rollout. */
function extraFields({
  status,
  samples,
  failure,
}: GradingOutcome): Pick<GraderCallbackBody, 'extra_fields'> {
  const loss = lossFields(failure)
  if (loss !== null) return { extra_fields: loss }
  if (status !== 'success') return {}
  try {
    const called = [...samples].filter(([, { calls }]) => calls.length > 0)
    const calls = called.map(([id, sample]) => [
      id,
      callReports(sample).map(([, report]) => report),
    ])
    const fields = toTelemetryJson({ calls: Object.fromEntries(calls) as object }, new Set())
    return called.length === 0 ? {} : { extra_fields: fields }
  } catch {
    // Sources are user code: their calls may be anything, and must not cost the reward.
    return {}
  }
}

type SampleBodies = ReadonlyMap<string, Required<SampleBody>>

/**
 * Encodes a body with samples in it.
 *
 * @param outcome - rewards are included when it is a success
 */
export function encodeSamples(
  outcome: { readonly status: string; readonly samples: ReadonlyMap<string, RolloutSample> },
  toBody: (samples: SampleBodies) => unknown,
): EncodedBody {
  const dropped = new Set<string>()
  try {
    const bodies = sampleBodies(outcome, (sample, key) => ({
      messages: [placeOf(key)],
      metrics: toTelemetryJson(sample.metrics, dropped),
      extra_fields: toTelemetryJson(sample.extraFields, dropped),
    }))
    const parts = withPlaces(JSON.stringify(toBody(bodies)), outcome.samples)
    const texts = new Map(
      [...outcome.samples].map(([key, { messages }]) => [key, conversationJson(messages)]),
    )
    const json = parts.map((part) => (typeof part === 'string' ? part : texts.get(part.sample)))
    const kinds = [...dropped].join(', ')
    return {
      json: json.join(''),
      parts,
      warning: kinds === '' ? null : `metrics or extra fields without a JSON form: ${kinds}`,
    }
  } catch (error) {
    // The conversation is optional, the reward is not.
    const bodies = sampleBodies(outcome, () => ({ messages: [], metrics: {}, extra_fields: {} }))
    const json = JSON.stringify(toBody(bodies))
    return {
      json,
      parts: [json],
      warning: `messages, metrics and extra fields, as they cannot be encoded: ${errorMessage(error)}`,
    }
  }
}

/** Deterministic: equal conversations have equal text. Throws for values without a JSON form. */
export function conversationJson(messages: unknown): string {
  return (Array.isArray(messages) ? JSON.stringify(messages) : undefined) ?? '[]'
}

// Conversations are long, and bodies repeat them: each is encoded once, and inserted at its placeholders.
const place = randomUUID()

function placeOf(key: string): string {
  return `${place} ${key}`
}

function withPlaces(json: string, samples: ReadonlyMap<string, RolloutSample>): BodyParts {
  let parts: BodyParts = [json]
  for (const sample of samples.keys()) {
    const hole = JSON.stringify([placeOf(sample)])
    parts = parts.flatMap((part) => {
      if (typeof part !== 'string') return [part]
      return part.split(hole).flatMap((piece, n) => (n === 0 ? [piece] : [{ sample }, piece]))
    })
  }
  return parts
}

type SampleContent = Pick<SampleBody, 'messages' | 'metrics' | 'extra_fields'>

function sampleBodies(
  { status, samples }: { status: string; samples: ReadonlyMap<string, RolloutSample> },
  contentOf: (sample: RolloutSample, key: string) => SampleContent,
): SampleBodies {
  const bodies = new Map<string, Required<SampleBody>>()
  for (const [id, sample] of samples) {
    // Sources and graders are user code: fields that they omit, or set to values of another type, must not cost the body.
    const { label, removeSample } = sample as Partial<RolloutSample>
    bodies.set(id, {
      id,
      label: labelText(label),
      reward: status === 'success' ? earnedReward(sample) : null,
      remove_sample: Boolean(removeSample),
      ...contentOf(sample, id),
    })
  }
  return bodies
}

/** A label as receivers expect it: text, or null where user code has set something that has none. */
function labelText(label: unknown): string | null {
  if (typeof label === 'string') return label
  return typeof label === 'number' || typeof label === 'bigint' ? String(label) : null
}

/** The only sample of a rollout; null when there is none, or more than one. */
export function onlyOne(bodies: SampleBodies): Omit<Required<SampleBody>, 'id'> | null {
  const [first, ...others] = bodies.values()
  if (first === undefined || others.length > 0) return null
  const { id: _, ...sample } = first
  return sample
}

// Consumers train on any number, so only an earned reward is included.
function earnedReward({ reward, removeSample }: RolloutSample): number | null {
  return typeof reward === 'number' && Number.isFinite(reward) && !removeSample ? reward : null
}

function failureFields(
  failure: RolloutFailure | null,
): Required<Pick<CompletionCallbackBody, 'err_message' | 'err_category'>> {
  return { err_message: failure?.message ?? null, err_category: failure?.category ?? null }
}

/** Null for a failure of the rollout itself. */
function lossFields(failure: RolloutFailure | null): { lost_with: RolloutLoss } | null {
  const cause = failure?.cause
  const loss = rolloutLossSchema.safeParse(isOsmosisError(cause) ? cause.code : undefined)
  return loss.success ? { lost_with: loss.data } : null
}
