import type { CompletionCallbackBody, GraderCallbackBody, SampleBody } from '@osmosis/core/wire'

import type {
  CompletionReport,
  ResultSample,
  RolloutOutcome,
  TokenUsage,
} from './rollout-result.ts'

/** What is known of a rollout when its end comes. */
export interface RolloutFacts {
  readonly rolloutId: string
  readonly completion: CompletionReport | null
  readonly policyCalls: number
  readonly usage: TokenUsage
  readonly durationMs: number
}

/** Reads a completion callback. */
export function toCompletionReport(body: CompletionCallbackBody): CompletionReport {
  return {
    status: body.status,
    errorMessage: body.err_message ?? null,
    errorCategory: body.err_category ?? null,
    extraFields: body.extra_fields ?? null,
  }
}

/** The end that a grader callback brings. */
export function gradedResult(facts: RolloutFacts, body: GraderCallbackBody): RolloutOutcome {
  const { completion } = facts
  const samples = readSamples(body)
  if (body.status === 'success' && completion?.status !== 'failure') {
    return { ...facts, status: 'success', samples, errorMessage: null, errorCategory: null }
  }
  return {
    ...facts,
    status: 'failure',
    samples,
    errorMessage: body.err_message ?? completion?.errorMessage ?? null,
    errorCategory: body.err_category ?? completion?.errorCategory ?? null,
  }
}

/** The end of a rollout that nobody grades. */
export function ungradedResult(facts: RolloutFacts, completion: CompletionReport): RolloutOutcome {
  const failed = completion.status === 'failure'
  return {
    ...facts,
    status: completion.status,
    samples: new Map(),
    errorMessage: failed ? completion.errorMessage : null,
    errorCategory: failed ? completion.errorCategory : null,
  }
}

/** The end of a rollout whose deadline passed. */
export function timedOutResult(facts: RolloutFacts, timeoutMs: number): RolloutOutcome {
  const errorMessage = `no terminal callback within ${timeoutMs / 1000} s`
  return {
    ...facts,
    status: 'timeout',
    samples: new Map(),
    errorMessage,
    errorCategory: 'timeout',
  }
}

/** The end of a rollout that the controller's user gave up. */
export function cancelledResult(facts: RolloutFacts): RolloutOutcome {
  return {
    ...facts,
    status: 'cancelled',
    samples: new Map(),
    errorMessage: 'cancelled',
    errorCategory: null,
  }
}

function readSamples(body: GraderCallbackBody): ReadonlyMap<string, ResultSample> {
  const named = Object.entries(body.samples)
  if (named.length > 0) return new Map(named.map(([name, sample]) => [name, toSample(sample)]))
  if (!body.sample) return new Map()
  return new Map([['sample', toSample({ ...body.sample, id: 'sample' })]])
}

function toSample(body: SampleBody): ResultSample {
  return {
    id: body.id,
    messages: body.messages,
    label: body.label ?? null,
    reward: body.reward ?? null,
    removeSample: body.remove_sample,
    metrics: body.metrics,
    extraFields: body.extra_fields,
  }
}
