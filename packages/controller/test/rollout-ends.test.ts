import {
  type CallbackConflict,
  type Controller,
  createController,
  type RolloutOutcome,
  scriptedPolicy,
} from '@osmosis/controller'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

import {
  complete,
  type FakeRolloutServer,
  grade,
  type Order,
  startRolloutServer,
} from './fake-rollout-server.ts'

const policy = scriptedPolicy(() => 'ok')
const ok = [200, { ok: true }]

let server: FakeRolloutServer
let controller: Controller
let commits: RolloutOutcome[]
let conflicts: CallbackConflict[]
/** What the commit hook does on top of recording. */
let commit: (result: RolloutOutcome) => void | Promise<void>

beforeEach(async () => {
  commits = []
  conflicts = []
  commit = () => {}
  server = await startRolloutServer()
  controller = await createController({
    policy,
    server: { url: server.url },
    onTerminal: async (result) => {
      commits.push(result)
      await commit(result)
    },
    onConflict: (conflict) => conflicts.push(conflict),
  })
})

afterEach(async () => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  await controller.close()
  await server[Symbol.asyncDispose]()
})

it('a rollout is committed by its own hook first, and acknowledged when both have', async () => {
  const order: string[] = []
  const failures = [new Error('disk full')]
  commit = () => void order.push('all')
  const running = controller.run(
    { initialMessages: [] },
    {
      onTerminal: () => {
        order.push('own')
        const [failure] = failures.splice(0)
        if (failure) throw failure
      },
    },
  )
  const sent = await server.order(0)
  expect((await grade(sent))[0]).toBe(500)
  expect(await grade(sent)).toStrictEqual(ok)
  expect((await running).status).toBe('success')
  expect(order).toStrictEqual(['own', 'own', 'all'])
})

describe('what ends a rollout', () => {
  it('is the grader callback, not the completion callback', async () => {
    const running = controller.run({ rolloutId: 'r', initialMessages: [] })
    const order = await server.order(0)
    expect(await complete(order)).toStrictEqual(ok)
    expect(commits).toStrictEqual([])
    expect(await grade(order)).toStrictEqual(ok)
    expect(commits).toStrictEqual([await running])
  })

  it.each([true, false])(
    'is a completion that says cancelled, whether the rollout is graded (%j) or not',
    async (graded) => {
      const running = controller.run({ initialMessages: [], grade: graded })
      const order = await server.order(0)
      expect(await complete(order, { status: 'cancelled' })).toStrictEqual(ok)
      expect(await running).toMatchObject({
        status: 'cancelled',
        errorMessage: 'cancelled',
        completion: { status: 'cancelled' },
      })
      expect(commits).toStrictEqual([await running])
    },
  )

  it('is a completion that says cancelled after one that said success', async () => {
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    await complete(order)
    expect(await complete(order, { status: 'cancelled', err_message: 'too late' })).toStrictEqual(
      ok,
    )
    expect(await running).toMatchObject({
      status: 'cancelled',
      samples: new Map(),
      errorMessage: 'too late',
      completion: { status: 'success' },
    })
  })

  it('stays that a rollout was cancelled, whatever its grader says afterwards', async () => {
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    await complete(order, { status: 'cancelled', err_message: 'no longer wanted' })
    expect(await grade(order, { status: 'failure' })).toStrictEqual(ok)
    expect((await running).errorMessage).toBe('no longer wanted')
    expect([commits.length, conflicts]).toStrictEqual([1, []])
  })

  it('is a completion, if the rollout is not graded', async () => {
    const running = controller.run({ initialMessages: [], grade: false })
    await complete(await server.order(0))
    expect(await running).toMatchObject({ status: 'success', samples: new Map() })
  })

  it('is a failed completion, if the rollout is not graded', async () => {
    const running = controller.run({ initialMessages: [], grade: false })
    const failure = { status: 'failure', err_message: 'lost', err_category: 'http_error' }
    await complete(await server.order(0), failure)
    expect(await running).toMatchObject({
      status: 'failure',
      errorMessage: 'lost',
      errorCategory: 'http_error',
      completion: { status: 'failure', errorMessage: 'lost' },
    })
  })

  it.each([
    ['completion', false],
    ['grader callback', true],
  ])('reports by its %s why the rollout was lost', async (_, graded) => {
    const running = controller.run({ initialMessages: [], grade: graded })
    const order = await server.order(0)
    const lost = { status: 'failure', extra_fields: { lost_with: 'worker_lost' } }
    await complete(order, graded ? {} : lost)
    if (graded) await grade(order, lost)
    expect((await running).lostWith).toBe('worker_lost')
  })

  it('is a failure when the workflow failed, whatever its grader says', async () => {
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    await complete(order, { status: 'failure', err_message: 'broke', err_category: 'agent_error' })
    await grade(order, { status: 'success', samples: { a: { id: 'a', messages: [], reward: 1 } } })
    expect(await running).toMatchObject({
      status: 'failure',
      errorMessage: 'broke',
      errorCategory: 'agent_error',
    })
  })

  it('is a failure with the words of the grader when grading failed', async () => {
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    await complete(order)
    await grade(order, {
      status: 'failure',
      samples: { a: { id: 'a', messages: ['stored'], reward: null } },
      err_message: 'no key',
      err_category: 'validation_error',
    })
    expect(await running).toMatchObject({
      status: 'failure',
      errorMessage: 'no key',
      errorCategory: 'validation_error',
      completion: { status: 'success' },
      samples: new Map([['a', expect.objectContaining({ messages: ['stored'], reward: null })]]),
    })
  })
})

describe('the commit of an end', () => {
  it('comes before the acknowledgement and before run resolves', async () => {
    const events: string[] = []
    const finish = Promise.withResolvers<void>()
    const committing = Promise.withResolvers<void>()
    commit = async () => {
      committing.resolve()
      await finish.promise
      events.push('committed')
    }
    const running = controller.run({ initialMessages: [] }).then(() => events.push('resolved'))
    const acknowledged = grade(await server.order(0)).then(() => events.push('acknowledged'))
    await committing.promise
    // An answer sent too early would be here by the time of a whole other exchange.
    await fetch(`${controller.url}/health`)
    expect(events).toStrictEqual([])
    finish.resolve()
    await Promise.all([running, acknowledged])
    expect(events).toStrictEqual(['committed', 'resolved', 'acknowledged'])
  })

  it('happens once for callbacks that arrive together', async () => {
    const finish = Promise.withResolvers<void>()
    const committing = Promise.withResolvers<void>()
    commit = async () => {
      committing.resolve()
      await finish.promise
    }
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    const body = { status: 'success', samples: { a: { id: 'a', messages: [], reward: 1 } } }
    const acknowledged = Array.from({ length: 20 }, () => grade(order, body))
    await committing.promise
    await exchange(order)
    finish.resolve()
    expect(await Promise.all(acknowledged)).toStrictEqual(Array.from({ length: 20 }, () => ok))
    await running
    expect([commits.length, conflicts]).toStrictEqual([1, []])
  })

  it('leaves a rollout that is not graded to another completion when it failed', async () => {
    commit = () => {
      if (commits.length === 1) throw new Error('disk full')
    }
    const running = controller.run({ initialMessages: [], grade: false })
    const order = await server.order(0)
    expect(await complete(order)).toStrictEqual([500, { detail: 'disk full' }])
    expect(await complete(order, { status: 'success', extra_fields: {} })).toStrictEqual(ok)
    await running
    expect(conflicts).toStrictEqual([])
  })

  it('is tried again with the next callback when it failed', async () => {
    commit = () => {
      if (commits.length < 3) throw new Error(`disk full ${commits.length}`)
    }
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    expect([
      await grade(order),
      await grade(order),
      await grade(order),
      await grade(order),
    ]).toEqual([[500, { detail: 'disk full 1' }], [500, { detail: 'disk full 2' }], ok, ok])
    expect((await running).status).toBe('success')
    expect([commits.length, conflicts]).toStrictEqual([3, []])
  })

  it('is tried again for a completion that ends the rollout', async () => {
    commit = () => {
      if (commits.length < 2) throw new Error('disk full')
    }
    const running = controller.run({ initialMessages: [], grade: false })
    const order = await server.order(0)
    expect([await complete(order), await complete(order)]).toStrictEqual([
      [500, { detail: 'disk full' }],
      ok,
    ])
    expect((await running).status).toBe('success')
    expect([commits.length, conflicts]).toStrictEqual([2, []])
  })

  it('is up to the next in line when the first of two failed', async () => {
    const fail = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    commit = async () => {
      if (commits.length > 1) return
      started.resolve()
      await fail.promise
    }
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    const first = grade(order, rewarded(1))
    await started.promise
    const second = grade(order, rewarded(2))
    await exchange(order)
    expect(commits).toHaveLength(1)
    fail.reject(new Error('disk full'))
    expect([await first, await second]).toStrictEqual([[500, { detail: 'disk full' }], ok])
    expect((await running).samples.get('a')?.reward).toBe(2)
    expect(conflicts).toStrictEqual([])
  })

  it('is made by one of those in line at a time when the first failed', async () => {
    const fail = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    commit = async () => {
      if (commits.length > 1) return
      started.resolve()
      await fail.promise
    }
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    const first = grade(order, rewarded(1))
    await started.promise
    const others = [grade(order, rewarded(2)), grade(order, rewarded(3))]
    await exchange(order)
    expect(commits).toHaveLength(1)
    fail.reject(new Error('disk full'))
    expect(await first).toStrictEqual([500, { detail: 'disk full' }])
    expect(await Promise.all(others)).toStrictEqual([ok, ok])
    expect(commits.slice(1)).toStrictEqual([await running])
    expect(conflicts).toHaveLength(1)
  })

  it.each([
    ['before', 0],
    ['after', 1],
  ])(
    'of a callback that came %s the order failed counts, although the first failed',
    async (_, n) => {
      const fail = Promise.withResolvers<void>()
      const started = Promise.withResolvers<void>()
      const admission = Promise.withResolvers<{ status: number }>()
      commit = async () => {
        if (commits.length > 1) return
        started.resolve()
        await fail.promise
      }
      await using lossy = await startRolloutServer(async () => admission.promise)
      const running = controller.run({ initialMessages: [] }, { server: { url: lossy.url } })
      const order = await lossy.order(0)
      const first = grade(order, rewarded(1))
      await started.promise
      const answers: Promise<unknown>[] = []
      const steps = [
        () => answers.push(grade(order, rewarded(2))),
        () => admission.resolve({ status: 500 }),
      ]
      for (const step of n === 0 ? steps : steps.toReversed()) {
        step()
        await exchange(order)
      }
      fail.reject(new Error('disk full'))
      expect(await first).toStrictEqual([500, { detail: 'disk full' }])
      expect(await Promise.all(answers)).toStrictEqual([ok])
      expect((await running).samples.get('a')?.reward).toBe(2)
      expect(commits.slice(1)).toStrictEqual([await running])
    },
  )

  it('of a callback survives the caller hanging up', async () => {
    const started = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    commit = async () => {
      started.resolve()
      await finish.promise
    }
    const running = controller.run({ initialMessages: [] })
    const order = await server.order(0)
    const hangUp = new AbortController()
    const callback = fetch(order.grader_callback_url ?? '', {
      method: 'POST',
      headers: { authorization: `Bearer ${order.controller_api_key}` },
      body: '{"status":"success"}',
      signal: hangUp.signal,
    })
    await started.promise
    hangUp.abort()
    await expect(callback).rejects.toThrow('aborted')
    await exchange(order)
    finish.resolve()
    expect((await running).status).toBe('success')
    expect(await grade(order)).toStrictEqual(ok)
    expect([commits.length, conflicts]).toStrictEqual([1, []])
  })
})

describe('the first end wins', () => {
  it('over a deadline that passes during its commit', async () => {
    const timeoutMs = 37
    const finish = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    commit = async () => {
      started.resolve()
      await finish.promise
    }
    const acknowledged = Promise.withResolvers<unknown>()
    await using grading = await startRolloutServer(async (order) => {
      acknowledged.resolve(grade(order))
      await started.promise
      return { status: 202 }
    })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const running = controller.run({ initialMessages: [], timeoutMs }, { server: grading })
    await started.promise
    await vi.waitUntil(() => timers.mock.calls.some(([, delay]) => delay === timeoutMs))
    // Of timers with the same delay, the one that started first fires first: the deadline.
    await new Promise((resolve) => setTimeout(resolve, timeoutMs))
    finish.resolve()
    expect(await acknowledged.promise).toStrictEqual(ok)
    expect((await running).status).toBe('success')
    expect([commits.length, grading.cancels]).toStrictEqual([1, []])
  })

  it('over a callback that comes during the commit of a timeout', async () => {
    const finish = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    commit = async () => {
      started.resolve()
      await finish.promise
    }
    const running = controller.run({ initialMessages: [], timeoutMs: 5 })
    await started.promise
    const order = await server.order(0)
    const acknowledged = grade(order)
    await exchange(order)
    finish.resolve()
    expect([await acknowledged, (await running).status]).toStrictEqual([ok, 'timeout'])
    expect([commits.length, conflicts]).toStrictEqual([1, []])
  })

  it('and a different callback is acknowledged, but counted as a conflict', async () => {
    const running = controller.run({ rolloutId: 'r', initialMessages: [] })
    const order = await server.order(0)
    const completions = [
      await complete(order, { status: 'success' }),
      await complete(order, { status: 'success', rollout_id: 'r', err_message: null }),
      await complete(order, { status: 'failure' }),
    ]
    const grades = [
      await grade(order, rewarded(1)),
      await grade(order, rewarded(1)),
      await grade(order, rewarded(0)),
      await complete(order, { status: 'failure' }),
    ]
    expect([...completions, ...grades]).toStrictEqual(Array.from({ length: 7 }, () => ok))
    expect((await running).samples.get('a')?.reward).toBe(1)
    expect(commits.map(({ completion }) => completion?.status)).toStrictEqual(['success'])
    expect(conflicts).toStrictEqual([
      { rolloutId: 'r', kind: 'completion' },
      { rolloutId: 'r', kind: 'completion' },
      { rolloutId: 'r', kind: 'grader' },
      { rolloutId: 'r', kind: 'completion' },
    ])
  })
})

describe('a rollout that ended', () => {
  it('is remembered for a quarter of an hour', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const running = controller.run({ rolloutId: 'r', initialMessages: [] })
    const order = await server.order(0)
    await grade(order)
    await running
    vi.advanceTimersByTime(15 * 60_000 - 1)
    expect(await grade(order)).toStrictEqual(ok)
    vi.advanceTimersByTime(2)
    expect(await grade(order)).toStrictEqual([404, { detail: 'unknown rollout_id' }])
  })
})

/**
 * Sends another callback and waits for its answer. What happened on other connections before has reached the controller by then,
 * because this callback takes the same steps after it.
 */
async function exchange(order: Order): Promise<void> {
  expect(await complete(order)).toStrictEqual(ok)
}

function rewarded(reward: number): Record<string, unknown> {
  return { status: 'success', samples: { a: { id: 'a', messages: [], reward } } }
}
