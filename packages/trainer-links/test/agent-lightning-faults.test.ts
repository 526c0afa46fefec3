import type { ServerResponse } from 'node:http'

import { describe, expect, test } from 'vitest'

import { HttpPeer, type PeerRequest } from '../../../test/kit/index.ts'
import type {
  TrainerFault,
  TrainerFaults,
  ReceivedTrainerRequest,
} from '../../../test/kit/trainers/index.ts'
import { apiKey, gateway, startWorker, trainedRewards } from './gateway-worker.ts'
import { model, plannedAgent, row, type Plan } from './planned-agent.ts'

test.each(['claim', 'model call', 'reward', 'end'])(
  'a lost answer to the first %s of each rollout changes nothing',
  async (purpose) => {
    const faulty = new Set<string>()
    const faults: TrainerFaults = (request) => {
      const [, id = ''] = /(rollout-\d+)/.exec(request.path) ?? []
      if (purposeOf(request) !== purpose || faulty.has(id)) return undefined
      faulty.add(id)
      return 'lost answer'
    }
    const rollouts = Array.from({ length: 10 }, (_, n) => ({ input: row({ reward: n }) }))
    const { fake, ids } = await gateway(rollouts, { faults })
    const agent = plannedAgent()
    startWorker(fake, agent)
    await fake.allEnded()
    expect(faulty.size).toBe(10)
    expect(agent.started.toSorted()).toEqual(ids)
    expect(trainedRewards(fake)).toEqual(Object.fromEntries(ids.map((id, n) => [id, [n, n]])))
  },
)

test.each<[TrainerFault, string[]]>([
  [500, ['claim']],
  [422, ['claim', 'look at one']],
])(
  'a rollout that cannot be taken (%i to %j) holds up neither the others nor the end of the worker',
  async (fault, purposes) => {
    const faults: TrainerFaults = (request) => {
      const isRefused = request.path.endsWith('/rollout-0') && purposes.includes(purposeOf(request))
      return isRefused ? fault : undefined
    }
    const rollouts = Array.from({ length: 5 }, () => ({ input: row() }))
    const { fake } = await gateway(rollouts, { faults })
    const worker = startWorker(fake, plannedAgent(), { concurrency: 2 })
    await fake.until(() => fake.rollouts.slice(1).every(({ state }) => state === 'succeeded'))
    expect((await worker.stop()).ends).toMatchObject({ rewarded: 4 })
    expect(fake.rollout('rollout-0').state).toBe('queuing')
  },
)

test('a worker that fails gives back the rollout that it was claiming', async () => {
  const claiming = Promise.withResolvers<void>()
  const { fake } = await gateway([{ input: row() }, { input: row() }])
  // In front of the gateway: one claim is slow, and from then on looking for rollouts fails.
  class Front extends HttpPeer {
    #claims = 0

    protected override receive(request: PeerRequest, response: ServerResponse): void {
      this.#forward(request, response).catch(() => response.destroy())
    }

    async #forward(request: PeerRequest, response: ServerResponse): Promise<void> {
      const { method, path, raw } = request
      if (path.includes('state_in=queuing') && this.#claims > 0) {
        response.writeHead(404).end('{}')
        return claiming.resolve()
      }
      if (method === 'PATCH' && (this.#claims += 1) === 2) await claiming.promise
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const sent = raw === '' ? {} : { body: raw }
      const answer = await fetch(fake.url + path, { method, headers, ...sent })
      response.writeHead(answer.status).end(await answer.text())
    }
  }
  await using front = await new Front().start()
  const worker = startWorker(fake, plannedAgent(), { url: front.url, concurrency: 3 })
  await expect(worker.done).rejects.toMatchObject({ code: 'protocol_error', status: 404 })
  expect(fake.rollouts.filter(({ state }) => state === 'running')).toEqual([])
  expect(fake.rollouts.some(({ state }) => state === 'failed')).toBe(true)
})

test('a rollout whose retry is refused ends with its first outcome', async () => {
  const isRetry = ({ method, body }: ReceivedTrainerRequest): boolean =>
    method === 'PATCH' && !('state' in (body['status'] as object))
  const { fake } = await gateway([{ input: row() }], {
    faults: (request) => (isRetry(request) ? 422 : undefined),
    model: async () => Promise.reject(new Error('out of memory')),
  })
  const worker = startWorker(fake, plannedAgent())
  await fake.allEnded()
  expect(fake.rollouts).toMatchObject([{ state: 'failed', errorMessage: /out of memory/ }])
  expect(await worker.stop()).toMatchObject({ retried: 0, undelivered: 0, ends: { failed: 1 } })
})

const moments = [
  ['it looks for rollouts', 'look', 1],
  ['it claims the first', 'claim', 1],
  ['it claims others', 'claim', 5],
  ['the first model call is made', 'model call', 1],
  ['others are made', 'model call', 9],
  ['the first reward is reported', 'reward', 1],
  ['others are reported', 'reward', 4],
  ['the first end is reported', 'end', 1],
  ['others are reported', 'end', 4],
] as const

describe('a worker that is stopped leaves no rollout open', () => {
  test.each(moments)('when %s (%s %i)', async (_when, purpose, count) => {
    expect(await leftOpen(purpose, count, [undefined])).toEqual([])
  })

  test('in the middle of a grading', async () => {
    const { fake, ids } = await gateway([{ input: row({ grading: 'hangs' }) }])
    const grading = Promise.withResolvers<void>()
    const agent = plannedAgent((phase) => {
      if (phase === 'grading') grading.resolve()
    })
    const worker = startWorker(fake, agent)
    await grading.promise
    await worker.stop()
    await expect.poll(() => agent.stopped).toEqual(ids)
    expect(fake.rollouts).toMatchObject([{ state: 'failed' }])
    expect(fake.trained()).toEqual([])
  })

  test('while model calls wait for the end of a pause', async () => {
    const { fake } = await gateway([{ input: row() }])
    // The pause outlasts the test.
    void fake.pause(60_000, 600)
    const agent = plannedAgent()
    const worker = startWorker(fake, agent)
    await fake.until(() => agent.started.length === 1)
    expect((await worker.stop()).ends).toMatchObject({ cancelled: 1 })
    expect(fake.rollouts).toMatchObject([{ state: 'failed', events: [] }])
  })

  test('and lets running rollouts continue for its drain time', async () => {
    const started = Promise.withResolvers<void>()
    const proceed = Promise.withResolvers<void>()
    const { fake, ids } = await gateway([{ input: row() }], {
      model: async (body) => {
        started.resolve()
        await proceed.promise
        return model(body, '')
      },
    })
    const worker = startWorker(fake, plannedAgent(), { drainSeconds: 30 })
    await started.promise
    const stopped = worker.stop()
    proceed.resolve()
    expect((await stopped).ends).toMatchObject({ rewarded: 1, cancelled: 0 })
    expect(trainedRewards(fake)).toEqual({ [String(ids[0])]: [1, 1] })
  })
})

test.each(moments)(
  'a worker that is stopped when %s (%s %i) leaves no rollout open',
  { tags: 'slow' },
  async (_when, purpose, count) => {
    expect(await leftOpen(purpose, count, ['reset', 'lost answer', 503])).toEqual([])
  },
)

/** What a request to the gateway is for. */
function purposeOf({ method, path, body }: ReceivedTrainerRequest): string {
  if (path.startsWith('/proxy/')) return 'model call'
  if (path.endsWith('/events')) return 'reward'
  if (method === 'GET') return path === '/api/rollouts' ? 'look' : 'look at one'
  const { state } = body['status'] as { state?: string }
  return state === 'running' ? 'claim' : 'end'
}

const plans: readonly Plan[] = [
  ...Array.from({ length: 6 }, (_, n) => ({ reward: n })),
  { afterwards: 'hangs' },
  { grading: 'hangs' },
  { afterwards: 'throws' },
  { grading: 'removes' },
]

/**
 * Stops a worker at the `count`-th request for `purpose`, which fails, and checks that everything that is trained has its
 * own reward. Resolves with the rollouts that are left open.
 */
async function leftOpen(
  purpose: string,
  count: number,
  how: readonly (TrainerFault | undefined)[],
): Promise<string[]> {
  const open: string[] = []
  for (const fault of how) {
    let stop = (): void => {}
    let seen = 0
    const faults: TrainerFaults = (request) => {
      if (purposeOf(request) !== purpose || (seen += 1) !== count) return undefined
      stop()
      return fault
    }
    const { fake } = await gateway(
      plans.map((plan) => ({ input: row(plan) })),
      { faults },
    )
    const agent = plannedAgent()
    const worker = startWorker(fake, agent, { concurrency: 5 })
    const ended = Promise.withResolvers<void>()
    stop = () => void worker.stop().then(() => ended.resolve(), ended.reject)
    await ended.promise
    const rewards = trainedRewards(fake)
    for (const [n, { id, state }] of fake.rollouts.entries()) {
      if (state === 'running') open.push(`${fault} ${id}`)
      const { reward } = plans[n] ?? {}
      const isTrained = state === 'succeeded' && reward !== undefined
      expect([fault, id, rewards[id]]).toEqual([
        fault,
        id,
        isTrained ? [reward, reward] : undefined,
      ])
    }
  }
  return open
}
