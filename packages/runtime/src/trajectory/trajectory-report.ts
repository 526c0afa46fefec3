import { z } from 'zod'

import { toTelemetryJson } from '../http/telemetry-json.ts'
import type { TrajectoryFinalMetrics, TrajectoryMetrics } from './atif.ts'

/** What a controller measured of the model calls of one sample. */
export interface SampleReport {
  readonly modelName: string | null
  /** One entry for each model call, in order. */
  readonly calls: readonly ReportedCall[]
  /** Takes precedence over sums of the entries. */
  readonly finalMetrics: TrajectoryFinalMetrics | null
}

/** What a controller measured of one model call. */
export interface ReportedCall {
  readonly modelName: string | null
  readonly metrics: TrajectoryMetrics
}

/** What a controller put into an acknowledgement. */
export interface TrajectoryReport {
  readonly modelName: string | null
  /** By sample id, or by whatever the controller calls the only sample. */
  readonly samples: ReadonlyMap<string, SampleReport>
}

const count = z.int().min(0).nullish()
// Its nesting has no limit on the wire, and has one where it is written.
const extra = z
  .record(z.string(), z.unknown())
  .transform((fields) => toTelemetryJson(fields, new Set()))
  .nullish()

const callSchema = z.object({
  prompt_tokens: count,
  completion_tokens: count,
  cached_tokens: count,
  cost_usd: z.number().nullish(),
  prompt_token_ids: z.array(z.int()).nullish(),
  completion_token_ids: z.array(z.int()).nullish(),
  logprobs: z.array(z.number()).nullish(),
  model_name: z.string().nullish(),
  extra,
})

const finalMetricsSchema = z.object({
  total_prompt_tokens: count,
  total_completion_tokens: count,
  total_cached_tokens: count,
  total_cost_usd: z.number().nullish(),
  extra,
})

const reportSchema = z.object({
  model_name: z.string().nullish(),
  samples: z
    .record(
      z.string(),
      z.object({
        model_name: z.string().nullish(),
        llm_call_metrics: z.array(callSchema).nullish(),
        // Malformed totals cost the totals: the entries say the same.
        final_metrics: finalMetricsSchema.nullish().catch(null),
      }),
    )
    .nullish(),
})

/**
 * Reads the `trajectory` of an acknowledgement's body. Anything may be in such a body.
 *
 * @returns null when it holds no report
 * @throws TypeError when it holds one that is not made as it should be
 */
export function readTrajectoryReport(body: string): TrajectoryReport | null {
  const found = trajectoryIn(body)
  if (found === null || found === undefined) return null
  const { data, error } = reportSchema.safeParse(found)
  if (error) {
    const [issue] = error.issues
    throw new TypeError(`trajectory.${issue?.path.join('.')}: ${issue?.message}`)
  }
  const samples = Object.entries(data.samples ?? {}).map(([key, sample]) => {
    const calls = (sample.llm_call_metrics ?? []).map(
      ({ model_name: modelName = null, ...metrics }): ReportedCall => ({ modelName, metrics }),
    )
    const { model_name: modelName = null, final_metrics: finalMetrics = null } = sample
    return [key, { modelName, calls, finalMetrics }] as const
  })
  return { modelName: data.model_name ?? null, samples: new Map(samples) }
}

function trajectoryIn(body: string): unknown {
  // Most say nothing, and an error for that would cost more than the rest of an acknowledgement.
  if (body === '') return null
  try {
    const json: unknown = JSON.parse(body)
    if (typeof json !== 'object' || json === null) return null
    return (json as { trajectory?: unknown }).trajectory
  } catch {
    return null
  }
}

/** The reports of a rollout's samples, and those that belong to none of them. */
export interface MatchedReports {
  readonly bySample: ReadonlyMap<string, SampleReport>
  readonly unmatched: ReadonlyMap<string, SampleReport>
}

/** A lone report is that of a lone sample, whatever it is called. */
export function matchReports(
  report: TrajectoryReport | null,
  sampleIds: readonly string[],
): MatchedReports {
  const reports = report?.samples ?? new Map<string, SampleReport>()
  const [onlyId, ...otherIds] = sampleIds
  const [only, ...others] = reports.values()
  if (onlyId !== undefined && only && otherIds.length === 0 && others.length === 0) {
    return { bySample: new Map([[onlyId, only]]), unmatched: new Map() }
  }
  const known = new Set(sampleIds)
  const entries = [...reports]
  return {
    bySample: new Map(entries.filter(([id]) => known.has(id))),
    unmatched: new Map(entries.filter(([id]) => !known.has(id))),
  }
}
