import { toTelemetryJson } from '../http/telemetry-json.ts'
import type { PolicyCall } from '@osmosis/core'
import type { TrajectoryFinalMetrics, TrajectoryMetrics } from './atif.ts'

/**
 * What our own log knows of a model call. What an endpoint sends in another form is left out.
 *
 * @param stepReward - what the grader said that the call was worth; null when it said nothing
 */
export function callMetrics(call: PolicyCall, stepReward: number | null = null): TrajectoryMetrics {
  const { usage, promptTokenIds, completionTokenIds } = call
  const details = fieldsOf(usage?.['prompt_tokens_details'])
  return withoutNulls({
    prompt_tokens: toCount(usage?.prompt_tokens),
    completion_tokens: toCount(usage?.completion_tokens),
    cached_tokens: toCount(details['cached_tokens']) ?? toCount(usage?.['cached_tokens']),
    cost_usd: toFinite(usage?.['cost_usd']),
    prompt_token_ids: toWholeNumbers(promptTokenIds),
    completion_token_ids: toWholeNumbers(completionTokenIds),
    logprobs: toLogprobs(call),
    extra: withoutNulls({
      response_id: call.id,
      step_reward: stepReward,
      latency_ms: Math.round(call.durationMs),
      time_to_first_chunk_ms:
        call.timeToFirstChunkMs === null ? null : Math.round(call.timeToFirstChunkMs),
      attempts: call.attempts,
      finish_reason: call.finishReason,
      // Said only where it is so: a trainer splits or masks here.
      history_rewritten: call.extendsPrevious ? null : true,
      ...usageDetails(usage),
    }),
  })
}

/** Entries laid over one another, field by field: nothing that is known gets lost. */
export function mergedMetrics(
  own: TrajectoryMetrics,
  reported: TrajectoryMetrics,
): TrajectoryMetrics {
  const extra = { ...own.extra, ...reported.extra }
  return {
    ...own,
    ...withoutNulls(reported),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  }
}

/** Sums of the numbers that are known; a sum of none is left out. */
export function totals(entries: readonly TrajectoryMetrics[]): TrajectoryFinalMetrics {
  const sum = (key: 'prompt_tokens' | 'completion_tokens' | 'cached_tokens' | 'cost_usd') => {
    const known = entries.flatMap((entry) => entry[key] ?? [])
    return known.length === 0 ? null : known.reduce((total, value) => total + value, 0)
  }
  return withoutNulls({
    total_prompt_tokens: sum('prompt_tokens'),
    total_completion_tokens: sum('completion_tokens'),
    total_cached_tokens: sum('cached_tokens'),
    total_cost_usd: sum('cost_usd'),
  })
}

type Given<T> = { [K in keyof T]?: NonNullable<T[K]> }

/** A copy with what is there: documents leave out what is not known. */
export function withoutNulls<T extends object>(fields: T): Given<T> {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(given) as Given<T>
}

function usageDetails(usage: PolicyCall['usage']): Record<string, unknown> {
  const details = Object.entries(usage ?? {}).filter(
    ([key, value]) => key.endsWith('_details') && value !== null,
  )
  return toTelemetryJson(Object.fromEntries(details), new Set())
}

function toLogprobs({ logprobs }: PolicyCall): number[] | null {
  const values = logprobs?.content?.map((token) => fieldsOf(token)['logprob'])
  return values?.length && values.every((value) => toFinite(value) !== null)
    ? (values as number[])
    : null
}

function toWholeNumbers(values: readonly unknown[] | null): number[] | null {
  return Array.isArray(values) && values.every(Number.isSafeInteger) ? (values as number[]) : null
}

function toCount(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null
}

function toFinite(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
