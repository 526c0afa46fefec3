import type { RolloutOrder } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { evaluationSummary, type EvaluationProgress, runEvaluation } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { datasetRows, evaluate, modelThat, names, placeOf, placeOfItem } from '../evaluations.ts'
import { failedWorkflow, rewarded } from '../rollout-results.ts'

describe('orders', () => {
  it('carry the row, its place, the budgets and a fresh id', async () => {
    const orders: RolloutOrder[] = []
    await runEvaluation({
      names,
      rows: [
        {
          sourceRowIndex: 7,
          initialMessages: [{ role: 'user', content: '6 × 7' }],
          label: '42',
          metadata: { level: 1 },
          otherColumns: { topic: 'not sent' },
        },
      ],
      n: 2,
      model: modelThat(
        (order) => {
          orders.push(order)
          return rewarded(1)
        },
        { agentTimeoutSeconds: 20, graderTimeoutSeconds: 5 },
      ),
    })
    expect(orders).toEqual(
      [0, 1].map((runIndex) => ({
        rolloutId: expect.stringMatching(new RegExp(`^eval-7-run-${runIndex}-[0-9a-f]{8}$`)),
        initialMessages: [{ role: 'user', content: '6 × 7' }],
        label: '42',
        metadata: { level: 1 },
        extraFields: { row_index: 0, run_index: runIndex },
        group: {
          id: expect.stringMatching(/^eval-7-[0-9a-f]{8}$/),
          attempt: runIndex + 1,
          size: 2,
        },
        agentTimeoutSeconds: 20,
        graderTimeoutSeconds: 5,
        timeoutMs: 85_000,
      })),
    )
    expect(orders[0]?.rolloutId).not.toBe(orders[1]?.rolloutId)
    expect(orders[0]?.group?.id).toBe(orders[1]?.group?.id)
  })

  it.each([
    ['agent', { graderTimeoutSeconds: 5 }],
    ['grader', { agentTimeoutSeconds: 20 }],
  ])('have an hour when the %s is unbounded', async (_who, budgets) => {
    const deadlines: unknown[] = []
    const model = modelThat((order) => {
      deadlines.push(order.timeoutMs)
      return rewarded(1)
    }, budgets)
    await runEvaluation({ names, rows: datasetRows(1), model })
    expect(deadlines).toEqual([3_600_000])
  })
})

describe('dispatch', () => {
  it('goes row by row, attempt by attempt', async () => {
    const places: string[] = []
    await evaluate(
      3,
      (order) => {
        places.push(placeOf(order))
        return rewarded(1)
      },
      { n: 2 },
    )
    expect(places).toEqual(['0/0', '0/1', '1/0', '1/1', '2/0', '2/1'])
  })

  it('fills up to maxInFlight, and starts the next item when one has ended', async () => {
    const running = new Map<string, () => void>()
    const seen: string[][] = []
    await evaluate(
      4,
      async (order) => {
        const { promise, resolve } = Promise.withResolvers<void>()
        running.set(placeOf(order), resolve)
        seen.push([...running.keys()])
        // The newest ends first, until only the oldest is left.
        if (running.size === 2) resolve()
        if (placeOf(order) === '3/0') running.get('0/0')?.()
        await promise
        running.delete(placeOf(order))
        return rewarded(1)
      },
      { maxInFlight: 2 },
    )
    expect(seen).toEqual([['0/0'], ['0/0', '1/0'], ['0/0', '2/0'], ['0/0', '3/0']])
  })

  it.each([
    ['n', { n: 0 }],
    ['n', { n: 1.5 }],
    ['maxInFlight', { maxInFlight: Infinity }],
  ])('refuses a bad %s', async (name, options) => {
    await expect(evaluate(1, () => rewarded(1), options)).rejects.toThrow(
      new RangeError(`${name} must be a positive integer, got ${Object.values(options)[0]}.`),
    )
  })
})

describe('the result', () => {
  it('holds the items in row order, whatever the order they ended in', async () => {
    const { promise: release, resolve } = Promise.withResolvers<void>()
    const ended: string[] = []
    const result = await evaluate(
      2,
      async (order) => {
        if (placeOf(order) === '0/0') await release
        return placeOf(order) === '1/1' ? failedWorkflow('boom') : rewarded(1)
      },
      {
        n: 2,
        maxInFlight: 2,
        onItem: (item) => {
          ended.push(placeOfItem(item))
          if (ended.length === 3) resolve()
        },
      },
    )
    expect(ended).toEqual(['0/1', '1/0', '1/1', '0/0'])
    const { items, model, ...rest } = result
    expect(items.map((item) => [placeOfItem(item), item.status])).toEqual([
      ['0/0', 'success'],
      ['0/1', 'success'],
      ['1/0', 'success'],
      ['1/1', 'failed'],
    ])
    expect(model).toEqual({
      name: 'policies/arithmetic.ts',
      summary: evaluationSummary(items, { attempts: 2, passThreshold: 1 }),
    })
    expect(rest).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      names,
      status: 'finished',
      incompleteReason: null,
      startedAt: expect.any(Date),
      completedAt: expect.any(Date),
      durationMs: expect.any(Number),
      rowCount: 2,
      attempts: 2,
      pending: 0,
      cost: null,
      location: null,
    })
  })

  it('keeps source row, tokens, rewards by sample and the error message of an item', async () => {
    const rows = datasetRows(9).slice(8)
    const { items } = await runEvaluation({
      names,
      rows,
      model: modelThat(() => failedWorkflow('boom')),
    })
    expect(items).toMatchObject([
      {
        row_index: 0,
        source_row_index: 8,
        run_index: 0,
        rollout_id: expect.stringMatching(/^eval-8-run-0-/),
        status: 'failed',
        reward: null,
        samples: {},
        tokens: 15,
        prompt_tokens: 10,
        completion_tokens: 5,
        duration_ms: 12.5,
        error_type: 'agent_error',
        error_message: 'boom',
      },
    ])
  })

  it('is announced item by item', async () => {
    const heard: [number, number, string][] = []
    await evaluate(2, () => rewarded(1), {
      onProgress: ({ done, total, item }: EvaluationProgress) =>
        heard.push([done, total, placeOfItem(item)]),
    })
    expect(heard).toEqual([
      [1, 2, '0/0'],
      [2, 2, '1/0'],
    ])
  })
})

describe('a refused rollout', () => {
  it.each([
    ['an answer of 4xx', new OsmosisError('protocol_error', 'answered 422', { status: 422 })],
    ['an order that cannot be sent', new OsmosisError('invalid_request', 'answered 422')],
  ])('is a failed item after %s, and the others continue', async (_name, error) => {
    const { status, items } = await evaluate(2, (order) => {
      if (placeOf(order) === '0/0') throw error
      return rewarded(1)
    })
    const outcomes = items.map((item) => [item.status, item.error_type, item.error_message])
    expect([status, outcomes]).toEqual([
      'finished',
      [
        ['failed', 'rollout_protocol_error', 'answered 422'],
        ['success', null, null],
      ],
    ])
  })
})

describe('a rollout that its server does not know', () => {
  const unknown = new OsmosisError('protocol_error', 'answered with 404', { status: 404 })

  it('is run again as another one, and has no outcome until it ends', async () => {
    const ids: string[] = []
    const { status, items } = await evaluate(2, (order) => {
      if (placeOf(order) !== '0/0') return rewarded(1)
      ids.push(String(order.rolloutId))
      if (ids.length < 3) throw unknown
      return rewarded(1)
    })
    expect([status, items.map(({ status: end }) => end)]).toEqual([
      'finished',
      ['success', 'success'],
    ])
    expect(new Set(ids).size).toBe(3)
  })

  it('stays pending and stops the evaluation when it is not known each time', async () => {
    const result = await evaluate(3, (order) => {
      if (placeOf(order) === '1/0') throw unknown
      return rewarded(1)
    })
    expect(result).toMatchObject({
      status: 'incomplete',
      incompleteReason: 'answered with 404',
      pending: 1,
    })
    expect(result.items.map(({ status: end }) => end)).toEqual(['success', 'success'])
  })
})

describe('a halt', () => {
  const unreachable = new OsmosisError('protocol_error', 'POST /rollout got no answer')
  const broken = new OsmosisError('protocol_error', 'answered with 500', { status: 500 })
  const wrongKey = new OsmosisError('unauthorized', 'answered with 401', { status: 401 })

  it.each([
    ['the server is unreachable', unreachable],
    ['the server answers with 5xx', broken],
    ['the key is wrong', wrongKey],
    ['something unforeseen is thrown', new TypeError('x is undefined')],
  ])('leaves the rest pending when %s', async (_name, error) => {
    const started: string[] = []
    const result = await evaluate(3, (order) => {
      started.push(placeOf(order))
      if (placeOf(order) === '1/0') throw error
      return rewarded(1)
    })
    const { status, incompleteReason, pending, items } = result
    expect({
      status,
      incompleteReason,
      pending,
      items: items.map(placeOfItem),
      started,
    }).toEqual({
      status: 'incomplete',
      incompleteReason: error.message,
      pending: 2,
      items: ['0/0'],
      started: ['0/0', '1/0'],
    })
    expect(result.model.summary.total_samples).toBe(1)
  })

  it('by a 5xx lets rollouts in progress come to their end', async () => {
    const { promise: halted, resolve } = Promise.withResolvers<void>()
    const signals: AbortSignal[] = []
    const { items } = await runEvaluation({
      names,
      rows: datasetRows(3),
      maxInFlight: 2,
      model: modelThat(async (order, { signal }) => {
        signals.push(signal)
        if (placeOf(order) === '1/0') {
          resolve()
          throw broken
        }
        await halted
        return rewarded(1)
      }),
    })
    expect(items.map(placeOfItem)).toEqual(['0/0'])
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false])
  })

  it('by an unreachable server cancels rollouts in progress, which stay pending', async () => {
    const { pending, items } = await runEvaluation({
      names,
      rows: datasetRows(3),
      maxInFlight: 2,
      model: modelThat((order, { signal }) => {
        if (placeOf(order) === '1/0') throw unreachable
        return untilAborted(signal)
      }),
    })
    expect([pending, items]).toEqual([3, []])
  })
})

describe('an abort', () => {
  it('cancels what runs, keeps what has ended, and gives its reason', async () => {
    const abort = new AbortController()
    const { status, incompleteReason, pending, items } = await runEvaluation({
      names,
      rows: datasetRows(4),
      maxInFlight: 2,
      signal: abort.signal,
      model: modelThat((order, { signal }) => {
        if (placeOf(order) === '0/0') return rewarded(1)
        if (placeOf(order) === '2/0') abort.abort(new Error('interrupted'))
        return untilAborted(signal)
      }),
    })
    expect({ status, incompleteReason, pending, items: items.map(placeOfItem) }).toEqual({
      status: 'incomplete',
      incompleteReason: 'interrupted',
      pending: 3,
      items: ['0/0'],
    })
  })

  it('keeps the end of a rollout that came in spite of it', async () => {
    const abort = new AbortController()
    const { status, pending, items } = await evaluate(
      2,
      () => {
        abort.abort(new Error('interrupted'))
        return rewarded(1)
      },
      { signal: abort.signal },
    )
    expect([status, pending, items.map(placeOfItem)]).toEqual(['incomplete', 1, ['0/0']])
  })

  it('that comes before the start starts nothing', async () => {
    const started: string[] = []
    const { status, pending } = await evaluate(
      2,
      (order) => {
        started.push(placeOf(order))
        return rewarded(1)
      },
      { signal: AbortSignal.abort(new Error('interrupted')) },
    )
    expect([status, pending, started]).toEqual(['incomplete', 2, []])
  })

  it('that comes with the last end does not make the evaluation incomplete', async () => {
    const abort = new AbortController()
    const { status, incompleteReason } = await evaluate(1, () => rewarded(1), {
      signal: abort.signal,
      onItem: () => abort.abort(new Error('interrupted')),
    })
    expect([status, incompleteReason]).toEqual(['finished', null])
  })
})

it('rejects with what a callback throws, after rollouts in progress were cancelled', async () => {
  const cancelled: string[] = []
  const evaluation = runEvaluation({
    names,
    rows: datasetRows(3),
    maxInFlight: 2,
    onItem: () => {
      throw new Error('disk full')
    },
    model: modelThat(async (order, { signal }) => {
      if (placeOf(order) === '0/0') return rewarded(1)
      try {
        return await untilAborted(signal)
      } finally {
        cancelled.push(placeOf(order))
      }
    }),
  })
  await expect(evaluation).rejects.toThrow('disk full')
  expect(cancelled).toEqual(['1/0'])
})

/** Rejects with the signal's reason, as the controller does. */
async function untilAborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason))
  if (signal.aborted) throw signal.reason
  return promise
}
