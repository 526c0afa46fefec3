import { isJsonObject, parseJson } from '@osmosis/core/http'
import { z } from 'zod'

import { toTelemetryJson } from '../http/telemetry-json.ts'
import {
  finalMetricsSchema,
  metricsSchema,
  type TrajectoryFinalMetrics,
  type TrajectoryMetrics,
} from './atif.ts'

/** What a controller measured for the model calls of one sample. */
export interface SampleReport {
  readonly modelName: string | null
  /** One entry for each model call, in order. */
  readonly calls: readonly ReportedCall[]
  /** Takes precedence over sums of the entries. */
  readonly finalMetrics: TrajectoryFinalMetrics | null
}

/** What a controller measured for one model call. */
export interface ReportedCall {
  readonly modelName: string | null
  readonly metrics: TrajectoryMetrics
}

/** The measurements of a controller in an acknowledgement. */
export interface TrajectoryReport {
  readonly modelName: string | null
  /** By sample id; the key of an only sample may be any name. */
  readonly samples: ReadonlyMap<string, SampleReport>
}

// Its nesting is unlimited in the body, but limited in documents.
const extra = z
  .record(z.string(), z.unknown())
  .transform((fields) => toTelemetryJson(fields, new Set()))
  .nullish()

const callSchema = metricsSchema.extend({ model_name: z.string().nullish(), extra }).strip()
const totalsSchema = finalMetricsSchema.omit({ total_steps: true }).extend({ extra }).strip()

const reportSchema = z.object({
  model_name: z.string().nullish(),
  samples: z
    .record(
      z.string(),
      z.object({
        model_name: z.string().nullish(),
        llm_call_metrics: z.array(callSchema).nullish(),
        // Malformed totals are dropped, because the entries contain the same.
        final_metrics: totalsSchema.nullish().catch(null),
      }),
    )
    .nullish(),
})

/**
 * Reads the `trajectory` of an acknowledgement, whose body may be anything.
 *
 * @returns null when the body has no report
 * @throws TypeError when its report is malformed
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
  // Most bodies are empty, and throwing a parse error would cost more than the rest of an acknowledgement.
  if (body === '') return null
  const json = parseJson(body)
  return isJsonObject(json) ? json['trajectory'] : null
}

/** The reports of a rollout's samples, and those that belong to none of them. */
export interface MatchedReports {
  readonly bySample: ReadonlyMap<string, SampleReport>
  readonly unmatched: ReadonlyMap<string, SampleReport>
}

/** An only report belongs to an only sample, whatever its key is. */
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
