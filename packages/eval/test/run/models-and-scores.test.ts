import { defineReward, OsmosisError } from '@osmosis/core'
import { type EvaluatedModel, runEvaluation, toScorer } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { datasetRows, evaluate, modelThat, names, placeOf } from '../evaluations.ts'
import { failedWorkflow, rewarded, rolloutResult, sample } from '../rollout-results.ts'
import { askingModel } from '../stored-evaluations.ts'

const said = (content: string): unknown[] => [
  { role: 'user', content: 'q' },
  { role: 'assistant', content },
]

function scoresOf({ scores = {}, score_errors: errors = {} }: ItemEvent): unknown[] {
  return [scores, errors]
}

const refused = {
  choices: [
    { message: { role: 'assistant', content: null, refusal: 'No.' }, finish_reason: 'stop' },
  ],
}

describe('eval functions', () => {
  it('see the conversation, the answer, the row and the reward', async () => {
    const samples = new Map([sample('main', { messages: said('4'), reward: 0.5 })])
    const seen: unknown[] = []
    const { items } = await runEvaluation({
      names,
      rows: datasetRows(1).map((row) => ({
        ...row,
        metadata: { level: 3, source: 'metadata' },
        otherColumns: { source: 'column', topic: 'sums' },
      })),
      model: modelThat(() => rolloutResult({ samples })),
      scorers: [
        toScorer('seeing', (input) => seen.push(input)),
        toScorer(
          'reward-function',
          defineReward((solution, truth, extra) => {
            seen.push([solution, truth, extra])
            return 0.25
          }),
        ),
      ],
    })
    const metadata = { level: 3, source: 'metadata', topic: 'sums' }
    expect(seen).toEqual([
      { messages: said('4'), solutionStr: '4', groundTruth: '0', metadata, reward: 0.5 },
      ['4', '0', metadata],
    ])
    expect(items.map(scoresOf)).toEqual([[{ seeing: 1, 'reward-function': 0.25 }, {}]])
  })

  it('read no answer in a refusal that the framework has as text', async () => {
    const { model } = await askingModel({ name: 'p', respond: async () => Response.json(refused) })
    const scorers = [toScorer('length', ({ solutionStr }) => String(solutionStr).length)]
    const { items } = await runEvaluation({ names, rows: datasetRows(1), model, scorers })
    expect(items[0]?.scores).toEqual({ length: 0 })
  })

  it('change nothing for one another', async () => {
    const samples = new Map([sample('main', { messages: said('4'), reward: 1 })])
    const { items } = await evaluate(1, () => rolloutResult({ samples }), {
      scorers: [
        toScorer('spoiling', ({ messages }: { messages: unknown[] }) => messages.splice(0).length),
        toScorer('counting', ({ messages }: { messages: unknown[] }) => messages.length),
      ],
    })
    expect(items[0]?.scores).toEqual({ spoiling: 2, counting: 2 })
  })

  it('give no score when they throw or return no finite number, and 0 only when they say so', async () => {
    const { items, model } = await evaluate(1, () => rewarded(1), {
      scorers: [
        toScorer('zero', () => 0),
        toScorer('throwing', () => {
          throw new Error('no judge')
        }),
        toScorer('rejecting', async () => Promise.reject(new Error('no answer'))),
        toScorer('text', () => '1'),
        toScorer('nan', () => NaN),
        toScorer('nothing', () => null),
      ],
    })
    expect(items.map(scoresOf)).toEqual([
      [
        { zero: 0 },
        {
          throwing: 'no judge',
          rejecting: 'no answer',
          text: 'it must return a finite number, got string',
          nan: 'it must return a finite number, got NaN',
          nothing: 'it must return a finite number, got null',
        },
      ],
    ])
    expect(model.summary.scores?.['throwing']).toEqual({ graded: 0, passed: 0, pass_rate: 0 })
    expect(items[0]).toMatchObject({ status: 'success', reward: 1 })
  })

  it('score every sample in training; the score is their mean unless one is missing', async () => {
    const samples = new Map([
      sample('a', { messages: said('1'), reward: 1 }),
      sample('b', { messages: said('0'), reward: 0 }),
      sample('c', { messages: said('gone'), removeSample: true }),
    ])
    const { items } = await evaluate(1, () => rolloutResult({ samples }), {
      scorers: [
        toScorer('number', ({ solutionStr }: { solutionStr: string }) => Number(solutionStr)),
        toScorer('ones', ({ solutionStr }: { solutionStr: string }) => {
          if (solutionStr !== '1') throw new Error(`not ${solutionStr}`)
          return 1
        }),
      ],
    })
    expect(items.map(scoresOf)).toEqual([[{ number: 0.5 }, { ones: 'not 0' }]])
  })

  it('make a reward dispensable: without them its absence is a failure', async () => {
    const ungraded = rolloutResult({ samples: new Map([sample('main', { messages: said('4') })]) })
    const scorers = [toScorer('one', () => 1)]
    const scored = await evaluate(1, () => ungraded, { scorers })
    expect(scored.items).toMatchObject([
      { status: 'success', reward: null, scores: { one: 1 }, error_type: null },
    ])
    const graderFailed = { ...ungraded, status: 'failure', errorMessage: 'no grader' } as const
    const failing = await evaluate(1, () => graderFailed, { scorers })
    expect(failing.items).toMatchObject([
      { status: 'success', reward: null, scores: { one: 1 }, error_message: null },
    ])
    const unscored = await evaluate(1, () => ungraded)
    expect(unscored.items).toMatchObject([{ status: 'failed', error_type: 'missing_reward' }])
  })

  it('are not asked about what failed or was skipped', async () => {
    const removed = rolloutResult({ samples: new Map([sample('main', { removeSample: true })]) })
    const { items } = await evaluate(
      2,
      (order) => (placeOf(order) === '0/0' ? failedWorkflow('boom') : removed),
      { scorers: [toScorer('one', () => 1)] },
    )
    expect(items.map(scoresOf)).toEqual([
      [{}, {}],
      [{}, {}],
    ])
  })

  it('that never end do not keep an abort waiting, and their items stay pending', async () => {
    const abort = new AbortController()
    const { pending, incompleteReason } = await evaluate(2, () => rewarded(1), {
      signal: abort.signal,
      scorers: [
        toScorer('hanging', () => {
          abort.abort(new Error('interrupted'))
          return new Promise(() => {})
        }),
      ],
    })
    expect([pending, incompleteReason]).toEqual([2, 'interrupted'])
  })
})

describe('a policy that cannot answer any call', () => {
  /** Finds out at its first item that the key is wrong. */
  function lockedOut(outcome = failedWorkflow('answered 401')): EvaluatedModel {
    const policy: { failure: string | null } = { failure: null }
    const model = modelThat(() => {
      policy.failure = 'The policy answered 401: wrong key'
      return outcome
    })
    return { ...model, policy }
  }

  it('ends the evaluation early, with the reason, and no item has failed of it', async () => {
    const { status, incompleteReason, pending, items } = await runEvaluation({
      names,
      rows: datasetRows(9),
      model: lockedOut(),
    })
    expect([status, incompleteReason, pending]).toEqual([
      'incomplete',
      'The policy answered 401: wrong key',
      9,
    ])
    expect(items).toEqual([])
  })

  it('has stopped nothing when the last item found out', async () => {
    const { status, incompleteReason } = await runEvaluation({
      names,
      rows: datasetRows(1),
      model: lockedOut(rewarded(1)),
    })
    expect([status, incompleteReason]).toEqual(['finished', null])
  })
})

it('takes more items in flight than there are', async () => {
  const { status } = await evaluate(2, () => rewarded(1), { maxInFlight: 999_999_999 })
  expect(status).toBe('finished')
})

it('counts an item as failed that the server would not take, with nothing to score', async () => {
  const refusal = new OsmosisError('protocol_error', 'answered 422', { status: 422 })
  const { items } = await evaluate(
    1,
    () => {
      throw refusal
    },
    { scorers: [toScorer('one', () => 1)] },
  )
  expect(items).toMatchObject([{ status: 'failed', error_type: 'rollout_protocol_error' }])
})
