import { setTimeout as sleep } from 'node:timers/promises'

import type { RolloutGroup } from '@osmosis/core'
import type { AgentLightningOptions } from '@osmosis/trainer-links'
import { describe, expect, test } from 'vitest'

import {
  startPolicyEndpoint,
  startServerProcess,
  type TestServerProcess,
} from '../../../test/kit/index.ts'
import type {
  FakeAgentLightning,
  TrainerFault,
  TrainerFaults,
} from '../../../test/kit/trainers/index.ts'
import { apiKey, gateway, startWorker, trainedRewards } from './gateway-worker.ts'
import { comparingAgent, model, plannedAgent, row } from './planned-agent.ts'

describe('what is trained of each end', () => {
  test.each([
    ['rewarded', row({ reward: 0.5 }), 'succeeded', [0.5, 0.5]],
    ['rewarded with 0', row({ reward: 0 }), 'succeeded', [0, 0]],
    ['removed', row({ grading: 'removes' }), 'succeeded', undefined],
    ['failed after two calls', row({ afterwards: 'throws' }), 'failed', undefined],
    ['failed in its grader', row({ grading: 'throws' }), 'failed', undefined],
    ['without an answered call', row({ calls: 0 }), 'failed', undefined],
    ['too late', { ...row({ afterwards: 'hangs' }), timeoutSeconds: 1 }, 'failed', undefined],
  ])('%s', async (_end, { timeoutSeconds, ...input }: Record<string, unknown>, state, rewards) => {
    const late = typeof timeoutSeconds === 'number' ? { timeoutSeconds } : {}
    const { fake, ids } = await gateway([{ input, ...late }])
    const [id = ''] = ids
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    expect(fake.rollout(id).state).toBe(state)
    expect(trainedRewards(fake)[id]).toEqual(rewards)
  })

  test.each([
    { mode: 'training', isTrain: true, temperature: 1, trained: [0.7, 0.7] },
    { mode: 'validation', isTrain: false, temperature: 0, trained: undefined },
  ])('$mode is run with the mode of $mode, and rewarded', async (of) => {
    const asked: unknown[] = []
    const { fake, ids } = await gateway([{ input: row({ reward: 0.7 }), isTrain: of.isTrain }], {
      model: async (body, rolloutId) => {
        asked.push(body['temperature'])
        return model(body, rolloutId)
      },
    })
    const [id = ''] = ids
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    const events = fake.rollout(id).events.filter(({ kind }) => kind === 'reward')
    expect(events).toMatchObject([{ value: 0.7 }])
    expect(asked).toEqual([of.temperature, of.temperature])
    expect(trainedRewards(fake)[id]).toEqual(of.trained)
  })

  test('a row that cannot be executed fails with the reason', async () => {
    const { fake, ids } = await gateway([{ input: { nothing: 1 } }, { input: 'no row at all' }])
    const { log } = startWorker(fake, plannedAgent())
    await fake.allEnded()
    const [first] = ids.map((id) => fake.rollout(id))
    expect(first).toMatchObject({ state: 'failed', errorMessage: /has no prompt/ })
    expect(log.filter(({ message }) => message === 'a row cannot be executed')).toHaveLength(2)
  })

  test('a row with a prompt alone is not graded, and so fails', async () => {
    const { fake } = await gateway([{ input: { question: 'What?', answer: null } }])
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    const errorMessage = expect.stringMatching(/neither a label nor metadata/) as unknown
    expect(fake.rollouts).toMatchObject([{ state: 'failed', errorMessage }])
    expect(fake.trained()).toEqual([])
  })

  test('a long error message is truncated, and the end is still reported', async () => {
    const { fake, ids } = await gateway([{ input: row({ afterwards: 'throws at length' }) }])
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    const { errorMessage } = fake.rollout(String(ids[0]))
    expect(errorMessage).toMatch(/: the sandbox has exited.*characters in all\]$/s)
    expect(Buffer.byteLength(errorMessage ?? '')).toBeLessThanOrEqual(8 * 1024)
  })

  test('an error message contains no key, for the trainer and in the log', async () => {
    const { fake, ids } = await gateway([{ input: row({ afterwards: 'throws a key' }) }])
    const worker = startWorker(fake, plannedAgent())
    await fake.allEnded()
    await worker.stop()
    expect(fake.rollout(String(ids[0])).errorMessage).toMatch(/: refused: Bearer \[redacted\]$/)
    expect(worker.log).toContainEqual({
      level: 'warn',
      message: 'rollout failed',
      fields: expect.objectContaining({
        error: expect.stringMatching(/: refused: Bearer \[redacted\]$/) as unknown,
      }) as unknown,
    })
    expect(JSON.stringify(worker.log)).not.toContain('gateway-key')
  })

  test('rows of unusual columns are read by a function', async () => {
    const { fake, ids } = await gateway([{ input: { frage: 'Was?' } }])
    const rows: AgentLightningOptions['rows'] = ({ frage }) => ({
      messages: [{ role: 'user', content: String(frage) }],
      label: null,
      metadata: { reward: 0.25 },
    })
    startWorker(fake, plannedAgent(), { rows })
    await fake.allEnded()
    expect(trainedRewards(fake)).toEqual({ [String(ids[0])]: [0.25, 0.25] })
  })

  test.each([
    ['nothing', undefined, /must return .*, got undefined/],
    ['a promise', Promise.resolve({ messages: [] }), /returned a promise/],
    ['a prompt as text', { messages: 'What?', label: null, metadata: {} }, /messages .* got text/],
    ['no message', { messages: [], label: null, metadata: {} }, /messages .* an empty list/],
    ['a number for a label', { messages: [{ role: 'user' }], label: 5 }, /label .* got number/],
    ['text for metadata', { messages: [{ role: 'user' }], metadata: 'm' }, /metadata .* got text/],
  ])(
    'a function that makes %s of a row fails the rollout with an explanation',
    async (_made, made, message) => {
      const { fake } = await gateway([{ input: {} }])
      startWorker(fake, plannedAgent(), { rows: () => made as never })
      await fake.allEnded()
      expect(fake.rollouts).toMatchObject([{ state: 'failed', errorMessage: message }])
      expect(fake.trained()).toEqual([])
    },
  )

  test('a function of rows may leave out the label and the metadata', async () => {
    const { fake } = await gateway([{ input: {} }])
    const messages = [{ role: 'user', content: 'What?' }]
    startWorker(fake, plannedAgent(), { rows: () => ({ messages }) })
    await fake.allEnded()
    expect(fake.trained().map(({ reward }) => reward)).toEqual([1, 1])
  })
})

describe('the one reward of several samples', () => {
  const input = row({ samples: ['a', 'b'], calls: 1, reward: 2 })

  test('is their mean, their sum or that of one, as one chooses', async () => {
    for (const [reward, expected] of [
      ['mean', 2],
      ['sum', 4],
      [{ sampleId: 'b' }, 2],
    ] as const) {
      const { fake, ids } = await gateway([{ input }])
      const worker = startWorker(fake, plannedAgent(), { reward })
      await fake.allEnded()
      expect(trainedRewards(fake)).toEqual({ [String(ids[0])]: [expected, expected] })
      await worker.stop()
    }
  })

  test('is none by default: the rollout has failed, and nothing is trained', async () => {
    const { fake, ids } = await gateway([{ input }])
    const worker = startWorker(fake, plannedAgent())
    await fake.allEnded()
    expect(fake.rollout(String(ids[0]))).toMatchObject({ state: 'failed', errorMessage: /mean/ })
    expect(fake.trained()).toEqual([])
    expect((await worker.stop()).ends).toMatchObject({ rewarded: 0, failed: 1 })
  })

  test('is none for a rollout that lost some of them: they would be trained with it', async () => {
    const { fake, ids } = await gateway([{ input: { ...input, grading: 'removes the first' } }])
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    const { state, errorMessage } = fake.rollout(String(ids[0]))
    expect({ state, errorMessage }).toMatchObject({ state: 'failed', errorMessage: /removed a/ })
    expect(fake.trained()).toEqual([])
  })
})

describe('a retry', () => {
  test('after an error of the endpoint is trained alone, under an attempt of its own', async () => {
    let refused = 0
    const { fake, ids } = await gateway([{ input: row({ reward: 0.5 }) }], {
      model: async (body, rolloutId) => {
        if (body.messages.length > 2 && (refused += 1) <= 3) throw new Error('out of memory')
        return model(body, rolloutId)
      },
    })
    const agent = plannedAgent()
    const worker = startWorker(fake, agent)
    await fake.allEnded()
    const { lastAttempt, events } = fake.rollout(String(ids[0]))
    expect(agent.started).toHaveLength(2)
    expect(lastAttempt).toMatch(/^1-/)
    expect(events.filter(({ attempt }) => attempt !== lastAttempt)).toHaveLength(1)
    expect(trainedRewards(fake)).toEqual({ [String(ids[0])]: [0.5, 0.5] })
    expect(await worker.stop()).toMatchObject({ retried: 1, ends: { rewarded: 1, failed: 0 } })
  })

  test('is not made for what the agent did, nor more often than wanted', async () => {
    const { fake } = await gateway([{ input: row({ afterwards: 'throws' }) }, { input: row() }], {
      model: async (body, rolloutId) => {
        if (rolloutId === 'rollout-1') throw new Error('out of memory')
        return model(body, rolloutId)
      },
    })
    const agent = plannedAgent()
    startWorker(fake, agent)
    await fake.allEnded()
    expect(agent.started.toSorted()).toEqual(['rollout-0', 'rollout-1', 'rollout-1'])
    expect(fake.trained()).toEqual([])
  })
})

describe('the trainer', () => {
  test('deletes a rollout: its agent is stopped', async () => {
    const { fake, ids } = await gateway([{ input: row({ afterwards: 'hangs' }) }])
    const agent = plannedAgent((_phase, id) => fake.remove(id))
    const worker = startWorker(fake, agent)
    await expect.poll(() => agent.stopped).toEqual(ids)
    expect((await worker.stop()).ends).toMatchObject({ cancelled: 1 })
    expect(fake.trained()).toEqual([])
  })

  test('deletes a rollout during a model call: its next model call ends it', async () => {
    const { fake } = await gateway([{ input: row() }], {
      model: async (body, rolloutId) => {
        fake.remove(rolloutId)
        return model(body, rolloutId)
      },
    })
    const worker = startWorker(fake, plannedAgent(), { watchSeconds: 600 })
    await expect
      .poll(() => worker.log.filter(({ message }) => message === 'rollout cancelled'))
      .toHaveLength(1)
    expect((await worker.stop()).ends).toMatchObject({ cancelled: 1, failed: 0 })
  })

  test('pauses in the middle of rollouts without a loss', async () => {
    let paused: Promise<void> | undefined
    const { fake } = await gateway(
      Array.from({ length: 20 }, () => ({ input: row({ calls: 3 }) })),
      {
        model: async (body, rolloutId) => {
          paused ??= fake.pause(400, 0)
          return model(body, rolloutId)
        },
      },
    )
    const agent = plannedAgent()
    startWorker(fake, agent)
    await fake.allEnded()
    expect(agent.started).toHaveLength(20)
    expect(Object.values(trainedRewards(fake))).toEqual(Array.from({ length: 20 }, () => [1, 1, 1]))
  })

  test('is warned of what it would drop: calls with the same prompt', async () => {
    const { fake } = await gateway([{ input: row({ repeats: true }) }])
    const worker = startWorker(fake, plannedAgent())
    await fake.allEnded()
    expect(fake.trained()).toHaveLength(1)
    expect(worker.log).toContainEqual(
      expect.objectContaining({ level: 'warn', message: expect.stringContaining('same prompt') }),
    )
  })
})

describe('workers', () => {
  test('share a queue: of 60 rollouts none is run twice', async () => {
    const { fake, ids } = await gateway(
      Array.from({ length: 60 }, (_, n) => ({ input: row({ reward: n }) })),
    )
    const agents = [plannedAgent(), plannedAgent()]
    for (const agent of agents) startWorker(fake, agent, { concurrency: 8 })
    await fake.allEnded()
    const started = agents.flatMap((agent) => agent.started)
    expect(started.toSorted()).toEqual(ids.toSorted())
    expect(agents.map(({ mostRunning }) => mostRunning <= 8)).toEqual([true, true])
    expect(agents.every((agent) => agent.started.length > 0)).toBe(true)
    expect(trainedRewards(fake)).toEqual(Object.fromEntries(ids.map((id, n) => [id, [n, n]])))
  })

  test('end rollouts that no worker executes any more, and train nothing of them', async () => {
    const { fake, ids } = await gateway([{ input: row(), timeoutSeconds: 1 }])
    const [id = ''] = ids
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const claim = JSON.stringify({ status: { state: 'running', last_attempt_id: '0' } })
    await fetch(`${fake.url}/api/rollouts/${id}`, { method: 'PATCH', headers, body: claim })
    const route = `/proxy/rollout/${id}/attempt/0/mode/train/openai/v1/chat/completions`
    await fetch(fake.url + route, { method: 'POST', headers, body: '{"messages":[]}' })
    const claimedAt = fake.rollout(id).updatedAt

    startWorker(fake, plannedAgent(), { abandonedAfterSeconds: 0.1 })
    await fake.allEnded()
    expect(fake.rollout(id).state).toBe('failed')
    expect(fake.rollout(id).updatedAt - claimedAt).toBeGreaterThan(1)
    expect(fake.trained()).toEqual([])
  })

  test.each<TrainerFault>([422, 500])(
    'end an abandoned rollout although the gateway refuses the end of another (%i)',
    async (fault) => {
      const faults: TrainerFaults = ({ method, path }) =>
        method === 'PATCH' && path.endsWith('/refused') && isClaimed ? fault : undefined
      let isClaimed = false
      const rollouts = ['refused', 'abandoned'].map((id) => ({
        id,
        input: row(),
        timeoutSeconds: 0,
      }))
      const { fake, ids } = await gateway(rollouts, { faults })
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const claim = JSON.stringify({ status: { state: 'running', last_attempt_id: '0' } })
      for (const id of ids) {
        await fetch(`${fake.url}/api/rollouts/${id}`, { method: 'PATCH', headers, body: claim })
      }
      isClaimed = true

      startWorker(fake, plannedAgent(), { abandonedAfterSeconds: 0.1 })
      await fake.until(() => fake.rollout('abandoned').state === 'failed')
      expect(fake.rollout('refused').state).toBe('running')
    },
  )

  test('with a wrong key end with one clear error', async () => {
    const { fake } = await gateway([{ input: row() }])
    const worker = startWorker(fake, plannedAgent(), { apiKey: 'another' })
    await expect(worker.done).rejects.toMatchObject({
      code: 'unauthorized',
      message: `The gateway of Agent Lightning at ${fake.url} refuses the key (401): set apiKey, or OSMOSIS_TRAINER_KEY for \`osmosis worker\`.`,
    })
    expect(worker.log.filter(({ level }) => ['warn', 'error'].includes(level))).toEqual([])
  })

  test('end with an error at an address without a gateway', async () => {
    const { fake } = await gateway([])
    const worker = startWorker(fake, plannedAgent(), { url: `${fake.url}/elsewhere` })
    await expect(worker.done).rejects.toMatchObject({ code: 'protocol_error' })
  })

  test('end with an error that quotes the answer of another server', async () => {
    const peer = await startPolicyEndpoint((response) => response.end('<html>Log in</html>'))
    const { fake } = await gateway([])
    const worker = startWorker(fake, plannedAgent(), { url: new URL(peer.url).origin })
    await expect(worker.done).rejects.toMatchObject({
      code: 'protocol_error',
      message: expect.stringMatching(/not JSON: "<html>Log in<\/html>"/) as string,
    })
  })

  test('end at once while the gateway does not answer', { timeout: 20_000 }, async () => {
    const received = Promise.withResolvers<void>()
    const peer = await startPolicyEndpoint(() => received.resolve())
    const { fake } = await gateway([])
    const worker = startWorker(fake, plannedAgent(), { url: new URL(peer.url).origin })
    await received.promise
    expect((await worker.stop()).ends).toMatchObject({ rewarded: 0, cancelled: 0 })
  })
})

/** The prompts that would be trained, as text. */
function trainedPrompts(fake: FakeAgentLightning): string[] {
  return fake.trained().map(({ promptIds }) => String.fromCodePoint(...promptIds))
}

describe('the calls of a rollout', () => {
  test('are trained in every part of a conversation that was rewritten', async () => {
    const { fake } = await gateway([{ input: row({ calls: 4, rewrites: true, reward: 0.5 }) }])
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    const prompts = trainedPrompts(fake)
    expect(prompts.map((prompt) => prompt.includes('In short.'))).toEqual([
      false,
      false,
      false,
      true,
    ])
    expect(new Set(fake.trained().map(({ reward }) => reward))).toEqual(new Set([0.5]))
  })

  test('are not trained where they are not training data', async () => {
    const { fake, ids } = await gateway([{ input: row({ calls: 2, titles: true }) }])
    startWorker(fake, plannedAgent())
    await fake.allEnded()
    const { events, lastAttempt } = fake.rollout(String(ids[0]))
    const attempts = events.flatMap((event) => (event.kind === 'call' ? [event.attempt] : []))
    const other = `${lastAttempt}-auxiliary`
    expect(attempts).toEqual([lastAttempt, other, lastAttempt, other])
    expect(trainedPrompts(fake)).toHaveLength(2)
    expect(trainedPrompts(fake).join('')).not.toContain('A title')
  })
})

describe('groups', () => {
  const grouped = (n: number): { input: object; group: string }[] =>
    Array.from({ length: n }, (_, at) => ({
      input: { ...row(), id: `row-${at % 3}` },
      group: `row-${at % 3}`,
    }))

  test('are the rows with the same value of a column, each attempt with its number', async () => {
    const { fake } = await gateway(grouped(12))
    const seen: (RolloutGroup | null)[] = []
    startWorker(fake, comparingAgent(seen), {
      groupColumn: 'id',
      groupSize: 2,
      concurrency: 2,
    })
    await fake.allEnded()
    const names = seen.map((group) => `${group?.id} ${group?.attempt} of ${group?.size}`)
    expect(names.toSorted()).toEqual(
      ['row-0', 'row-1', 'row-2'].flatMap((id) => [
        `${id}/1 1 of 2`,
        `${id}/1 2 of 2`,
        `${id}/2 1 of 2`,
        `${id}/2 2 of 2`,
      ]),
    )
    expect(new Set(fake.trained().map(({ reward }) => reward))).toEqual(new Set([0.5, 1]))
  })

  test('do not contain validation rollouts', async () => {
    const { fake, ids } = await gateway([{ input: { ...row(), id: 'row-0' }, isTrain: false }])
    startWorker(fake, comparingAgent([]), { groupColumn: 'id', groupSize: 2, concurrency: 2 })
    await fake.allEnded()
    expect(fake.rollout(String(ids[0]))).toMatchObject({
      state: 'failed',
      errorMessage: expect.stringContaining('was sent without a group') as unknown,
    })
  })
})

test(
  'a grader that exceeds the time of its rollout fails, before another worker ends the rollout',
  { tags: 'slow' },
  async () => {
    const { fake, ids } = await gateway(
      [{ input: row({ grading: 'hangs' }), timeoutSeconds: 12 }],
      {
        // Two calls take most of the time: the grader's own limit would be over long after the rollout's.
        model: async (body, rolloutId) => {
          await sleep(4000)
          return model(body, rolloutId)
        },
      },
    )
    const agent = plannedAgent()
    startWorker(fake, agent, { abandonedAfterSeconds: 1 })
    await fake.allEnded()
    const [id = ''] = ids
    expect(fake.rollout(id)).toMatchObject({
      state: 'failed',
      errorMessage: 'agent and grader together exceeded the 12s that the trainer gives a rollout',
    })
    expect(agent.stopped).toEqual([id])
    expect(fake.trained()).toEqual([])
  },
)

test(
  'another worker ends the rollouts of a worker that was killed, and none of them is trained',
  { tags: 'slow' },
  async () => {
    let killed: TestServerProcess | undefined
    const { fake, ids } = await gateway(
      Array.from({ length: 20 }, (_, n) => ({
        input: row({ reward: n, calls: 3 }),
        timeoutSeconds: 4,
      })),
      {
        model: async (body, rolloutId) => {
          // Kills the worker in the middle of some rollouts, whose answers then reach no one.
          if (fake.rollouts.flatMap(({ events }) => events).length > 20) killed?.kill('SIGKILL')
          return model(body, rolloutId)
        },
      },
    )
    const script = new URL('worker-process.ts', import.meta.url)
    const env = { GATEWAY_URL: fake.url, GATEWAY_KEY: apiKey }
    killed = await startServerProcess(script, env)
    await killed.exit
    const left = fake.rollouts.filter(({ state }) => state === 'running').map(({ id }) => id)
    expect(left.length).toBeGreaterThan(0)

    await startServerProcess(script, env)
    await fake.allEnded()
    const rewards = trainedRewards(fake)
    for (const [n, id] of ids.entries()) {
      const state = fake.rollout(id).state
      expect([id, state]).toEqual([id, left.includes(id) ? 'failed' : 'succeeded'])
      expect([id, rewards[id]]).toEqual([id, left.includes(id) ? undefined : [n, n, n]])
    }
  },
)
