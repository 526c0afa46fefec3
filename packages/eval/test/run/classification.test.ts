import type { RolloutOutcome } from '@osmosis/controller'
import { expect, it } from 'vitest'

import { evaluate } from '../evaluations.ts'
import { failedWorkflow, rewarded, rolloutResult, sample } from '../rollout-results.ts'

interface Outcome {
  status: string
  reward: number | null
  errorType: string | null
  errorMessage: string | null
}

async function outcomeOf(result: RolloutOutcome): Promise<Outcome> {
  const { items } = await evaluate(1, () => result)
  expect(items).toHaveLength(1)
  const { status, reward, error_type, error_message } = items[0] ?? rejected()
  return { status, reward, errorType: error_type, errorMessage: error_message }
}

function rejected(): never {
  throw new Error('There is no record.')
}

const noError = { errorType: null, errorMessage: null }
const graderFailure = { status: 'failure', errorMessage: null } as const

it.each<[string, RolloutOutcome, Outcome]>([
  ['a reward', rewarded(0.25), { status: 'success', reward: 0.25, ...noError }],
  ['a reward of 0', rewarded(0), { status: 'success', reward: 0, ...noError }],
  [
    'several samples as their mean',
    rolloutResult({
      samples: new Map([
        sample('a', { reward: 1 }),
        sample('b', { reward: 0 }),
        sample('c', { removeSample: true }),
      ]),
    }),
    { status: 'success', reward: 0.5, ...noError },
  ],
  [
    'no callback in time',
    rolloutResult({
      status: 'timeout',
      samples: new Map(),
      errorMessage: 'no terminal callback within 60 s',
      errorCategory: 'timeout',
      completion: null,
    }),
    {
      status: 'failed',
      reward: null,
      errorType: 'callback_timeout',
      errorMessage: 'no terminal callback within 60 s',
    },
  ],
  [
    'a cancellation by the server',
    rolloutResult({ status: 'cancelled', samples: new Map(), errorMessage: 'cancelled' }),
    { status: 'failed', reward: null, errorType: 'cancelled', errorMessage: 'cancelled' },
  ],
  [
    'a failed workflow, by the category the server gave',
    failedWorkflow('boom'),
    { status: 'failed', reward: null, errorType: 'agent_error', errorMessage: 'boom' },
  ],
  [
    'a failed workflow without a category',
    { ...failedWorkflow('boom'), errorCategory: null },
    { status: 'failed', reward: null, errorType: 'workflow_failed', errorMessage: 'boom' },
  ],
  [
    'a failed grader without a category, message or reward',
    rolloutResult({ ...graderFailure, samples: new Map([sample('main')]) }),
    {
      status: 'failed',
      reward: null,
      errorType: 'grader_failed',
      errorMessage: 'the grader failed and the server did not say why',
    },
  ],
  [
    'a failed grader that left a reward',
    rolloutResult({ ...graderFailure, errorMessage: 'late', errorCategory: 'timeout' }),
    { status: 'failed', reward: 1, errorType: 'timeout', errorMessage: 'late' },
  ],
  [
    'a removed sample',
    rolloutResult({ samples: new Map([sample('main', { reward: 1, removeSample: true })]) }),
    { status: 'skipped', reward: null, ...noError },
  ],
  [
    'a success without samples',
    rolloutResult({ samples: new Map() }),
    {
      status: 'failed',
      reward: null,
      errorType: 'missing_grader_callback',
      errorMessage: 'the rollout ended without graded samples',
    },
  ],
  [
    'a success without a reward',
    rolloutResult({ samples: new Map([sample('a', { reward: 1 }), sample('b')]) }),
    {
      status: 'failed',
      reward: null,
      errorType: 'missing_reward',
      errorMessage: 'no reward for sample "b"',
    },
  ],
])('counts %s', async (_name, result, outcome) => {
  expect(await outcomeOf(result)).toEqual(outcome)
})
