import type { RolloutOrder } from '@osmosis/controller'
import { describe, expect, it } from 'vitest'

import { evaluate, placeOf, placeOfItem } from '../evaluations.ts'
import { rewarded, rolloutResult } from '../rollout-results.ts'

/** Answers the attempts of a group when all of them are there, as a server with a group grader does. */
class GatheringModel {
  readonly started: string[] = []
  most = 0
  readonly #waiting = new Map<string, (() => void)[]>()
  #inFlight = 0

  readonly answer = async (order: RolloutOrder): Promise<ReturnType<typeof rewarded>> => {
    const { id = '', size = 1 } = order.group ?? {}
    this.started.push(placeOf(order))
    this.#inFlight += 1
    this.most = Math.max(this.most, this.#inFlight)
    const { promise, resolve } = Promise.withResolvers<void>()
    const group = [...(this.#waiting.get(id) ?? []), resolve]
    this.#waiting.set(id, group)
    if (group.length === size) for (const end of group) end()
    await promise
    this.#inFlight -= 1
    return rewarded(1)
  }
}

describe('attempts that are graded together', () => {
  it.each([
    { maxInFlight: 1, most: 3 },
    { maxInFlight: 5, most: 3 },
    { maxInFlight: 7, most: 6 },
    { maxInFlight: 100, most: 12 },
  ])('are started together, within $maxInFlight in flight', async ({ maxInFlight, most }) => {
    const model = new GatheringModel()
    const { items, status } = await evaluate(4, model.answer, {
      n: 3,
      maxInFlight,
      gradesGroups: true,
    })
    expect([status, items.length, model.most]).toEqual(['finished', 12, most])
    const groups = Array.from({ length: 4 }, (_, row) => [`${row}/0`, `${row}/1`, `${row}/2`])
    expect(model.started.toSorted()).toEqual(groups.flat())
    expect(model.started.slice(0, 3)).toEqual(groups[0])
  })

  it('count once where they run again, because one of them was lost', async () => {
    let calls = 0
    const lost = rolloutResult({
      status: 'failure',
      samples: new Map(),
      errorMessage: 'gone',
      lostWith: 'worker_lost',
    })
    const done: number[] = []
    const { items, model, pending } = await evaluate(
      2,
      (order) => (placeOf(order) === '0/1' && (calls += 1) === 1 ? lost : rewarded(1)),
      { n: 2, gradesGroups: true, onProgress: (progress) => void done.push(progress.done) },
    )
    expect(items.map(placeOfItem)).toEqual(['0/0', '0/1', '1/0', '1/1'])
    expect([model.summary.total_samples, pending]).toEqual([4, 0])
    expect(done).toEqual([1, 2, 3, 3, 4])
  })

  it('fail once, however often they run again', async () => {
    let calls = 0
    const failed = rolloutResult({ status: 'failure', samples: new Map(), errorMessage: 'no' })
    const lost = rolloutResult({ ...failed, errorMessage: 'gone', lostWith: 'worker_lost' })
    const { status, model } = await evaluate(
      2,
      (order) => {
        if (placeOf(order) === '0/0') return failed
        return placeOf(order) === '0/1' && (calls += 1) < 3 ? lost : rewarded(1)
      },
      { n: 2, gradesGroups: true, failOnError: 2 },
    )
    expect([status, model.summary.failed, calls]).toEqual(['finished', 1, 3])
  })

  it('are not started when the run has been halted before', async () => {
    const model = new GatheringModel()
    const stop = new AbortController()
    const { status, pending } = await evaluate(3, model.answer, {
      n: 2,
      gradesGroups: true,
      signal: stop.signal,
      onItem: () => stop.abort(new Error('enough')),
    })
    expect([status, pending, model.started.length]).toEqual(['incomplete', 4, 2])
  })
})
