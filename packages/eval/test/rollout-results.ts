import type { ResultSample, RolloutOutcome } from '@osmosis/controller'

/** A sample with this reward and nothing in it. */
export function sample(id: string, init: Partial<ResultSample> = {}): [string, ResultSample] {
  const empty = { messages: [], label: null, removeSample: false, metrics: {}, extraFields: {} }
  return [id, { ...empty, id, reward: null, calls: [], ...init }]
}

/** A rollout that made one model call and ended as `init` says; by default with a reward of 1. */
export function rolloutResult(init: Partial<RolloutOutcome> = {}): RolloutOutcome {
  return {
    rolloutId: 'r',
    status: 'success',
    samples: new Map([sample('main', { reward: 1 })]),
    errorMessage: null,
    errorCategory: null,
    completion: { status: 'success', errorMessage: null, errorCategory: null, extraFields: null },
    gradingMs: 4,
    policyCalls: 1,
    usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15 },
    durationMs: 12.5,
    ...init,
  }
}

/** A rollout that ended with this reward. */
export function rewarded(reward: number): RolloutOutcome {
  return rolloutResult({ samples: new Map([sample('main', { reward })]) })
}

/** A rollout whose workflow failed. */
export function failedWorkflow(errorMessage: string): RolloutOutcome {
  return rolloutResult({
    status: 'failure',
    samples: new Map(),
    errorMessage,
    errorCategory: 'agent_error',
    completion: {
      status: 'failure',
      errorMessage,
      errorCategory: 'agent_error',
      extraFields: null,
    },
  })
}
