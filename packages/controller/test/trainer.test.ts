import {
  createTrainer,
  scriptedPolicy,
  type AnsweredCall,
  type CallbackConflict,
  type LoopOutcome,
  type PolicyModel,
  type PolicyRequest,
  type Trainer,
} from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import {
  accept,
  addTool,
  callTrainer,
  chat,
  completed,
  startLoopServer,
  type FakeLoopServer,
} from './fake-loop-server.ts'

const usage = { promptTokens: 7, completionTokens: 3 }
const acknowledged = [200, { status: 'ok' }]

let server: FakeLoopServer
let trainer: Trainer
let asked: PolicyRequest[]
let commits: LoopOutcome[]
let conflicts: CallbackConflict[]
/** What the commit hook does on top of recording. */
let commit: (outcome: LoopOutcome) => void | Promise<void>
let answer: PolicyModel['respond']

beforeEach(async () => {
  asked = []
  commits = []
  conflicts = []
  commit = () => {}
  answer = (request) => scriptedPolicy(() => ({ content: 'five', usage })).respond(request)
  server = await startLoopServer()
  const respond: PolicyModel['respond'] = async (request) => {
    asked.push(request)
    return answer(request)
  }
  trainer = await createTrainer({
    policy: { name: 'p', respond },
    server: { url: server.url, apiKey: 'sesame' },
    onTerminal: async (outcome) => {
      commits.push(outcome)
      await commit(outcome)
    },
    onConflict: (conflict) => conflicts.push(conflict),
  })
})

afterEach(async () => {
  await trainer.close()
  await server[Symbol.asyncDispose]()
})

describe('a rollout', () => {
  it('is started with everything its order says', async () => {
    const running = trainer.run({
      rolloutId: 'r 1/ü',
      messages: [{ role: 'user', content: 'hi' }],
      completionParams: { temperature: 0.5 },
      maxTurns: 3,
      maxTokensTotal: 100,
      metadata: { ground_truth: '5' },
    })
    const init = await server.init(0)
    expect([server.authorization, init]).toEqual([
      ['Bearer sesame'],
      {
        rollout_id: 'r 1/ü',
        server_url: trainer.url,
        messages: [{ role: 'user', content: 'hi' }],
        completion_params: { temperature: 0.5 },
        max_turns: 3,
        max_tokens_total: 100,
        metadata: { ground_truth: '5' },
        api_key: trainer.apiKey,
      },
    ])
    await completed(init)
    expect(await running).toMatchObject({ rolloutId: 'r 1/ü' })
  })

  it('resolves with what the loop reported and what the policy counted', async () => {
    const running = trainer.run({ rolloutId: 'r', messages: [] })
    const init = await server.init(0)
    expect(await (await chat(init)).json()).toMatchObject({
      choices: [{ message: { content: 'five' } }],
    })
    const final_messages = [{ role: 'assistant', content: 'five', extra: null }]
    const metrics = { num_llm_calls: 1, prompt_tokens: 7, response_tokens: 3 }
    const result = { final_messages, finish_reason: 'stop', reward: 0, metrics }
    expect(await completed(init, result)).toEqual(acknowledged)
    expect(await running).toEqual({
      rolloutId: 'r',
      status: 'success',
      finalMessages: final_messages,
      finishReason: 'stop',
      reward: 0,
      errorMessage: null,
      metrics: {
        ...metrics,
        total_latency_ms: 0,
        llm_latency_ms: 0,
        tool_latency_ms: 0,
        num_tool_calls: 0,
        max_context_tokens: 0,
      },
      policyCalls: 1,
      usage: { ...usage, totalTokens: 10 },
      durationMs: expect.any(Number),
    })
  })

  it('is a failure with the words of the loop when that reports an error', async () => {
    const running = trainer.run({ messages: [] })
    await completed(await server.init(0), { status: 'ERROR', error_message: 'too hard' })
    expect(await running).toMatchObject({ status: 'failure', errorMessage: 'too hard' })
  })

  it('waits for a place, and starts its clock when it has one', async () => {
    await using busy = await startLoopServer((init, n) =>
      n < 2 ? { status: [429, 503][n] ?? 0, headers: { 'retry-after': '0.05' } } : accept(init),
    )
    const running = trainer.run({ messages: [], timeoutMs: 60_000 }, { server: busy })
    await completed(await busy.init(2))
    expect(await running).toMatchObject({ status: 'success' })
    expect(new Set(busy.inits.map((init) => init.rollout_id)).size).toBe(1)
  })

  it('may be over before the init is answered, and whatever the answer is then', async () => {
    await using hasty = await startLoopServer(async (init) => {
      await completed(init, { reward: 1 })
      return { status: 500 }
    })
    const outcome = await trainer.run({ messages: [] }, { server: hasty })
    expect(outcome).toMatchObject({ status: 'success', reward: 1 })
  })

  it('is an error when it is not accepted, with the reason as the cause', async () => {
    await using strict = await startLoopServer(() => ({
      status: 500,
      body: '{"detail":"nothing to add"}',
    }))
    const running = trainer.run({ rolloutId: 'r', messages: [] }, { server: strict })
    await expect(running).rejects.toMatchObject({
      code: 'protocol_error',
      status: 500,
      message: expect.stringContaining(
        'POST /v1/rollout/init was answered with 500: nothing to add.',
      ),
      cause: new Error('nothing to add'),
    })
    const again = trainer.run({ rolloutId: 'r', messages: [] })
    await completed(await server.init(0))
    expect((await again).rolloutId).toBe('r')
  })

  it.each(['{}', 'ok', '{"rollout_id":"r","tools":[{"type":"function"}]}'])(
    'is an error when it is accepted with %s',
    async (body) => {
      await using odd = await startLoopServer(() => ({ status: 202, body }))
      await expect(trainer.run({ messages: [] }, { server: odd })).rejects.toMatchObject({
        code: 'protocol_error',
        message: expect.stringContaining(body),
      })
    },
  )

  it.each([
    [{ rolloutId: ' ' }, 'rollout_id'],
    [{ rolloutId: 'x'.repeat(257) }, 'rollout_id'],
    [{ maxTurns: 1.5 }, 'max_turns'],
  ])('that cannot be sent is refused: %j', async (order, field) => {
    await expect(trainer.run({ messages: [], ...order })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(field),
    })
    expect(server.inits).toEqual([])
  })

  it('needs a server', async () => {
    await using alone = await createTrainer({ policy: { name: 'p', respond: answer } })
    await expect(alone.run({ messages: [] })).rejects.toMatchObject({ code: 'invalid_config' })
  })
})

describe('a model call', () => {
  it('reaches the policy with the tools of the init answer, without what is for the trainer', async () => {
    const running = trainer.run({ rolloutId: 'r', messages: [] })
    const init = await server.init(0)
    await chat(init, { messages: [{ role: 'user', content: 'hi' }], seed: 3 })
    await completed(init)
    await running
    expect(asked).toMatchObject([{ rolloutId: 'r', sampleId: '' }])
    expect(asked[0]?.body).toEqual({
      model: 'default',
      messages: [{ role: 'user', content: 'hi' }],
      seed: 3,
      tools: [addTool],
    })
    expect(asked[0]?.headers).not.toHaveProperty('authorization')
  })

  it('that is faster than the answer to the init waits for the tools', async () => {
    const answerInit = Promise.withResolvers<void>()
    await using slow = await startLoopServer(async (init) => {
      await answerInit.promise
      return accept(init)
    })
    const tools: unknown[] = []
    const running = trainer.run(
      { messages: [] },
      { server: slow, onAccepted: (accepted) => tools.push(...accepted) },
    )
    const init = await slow.init(0)
    const answered = chat(init)
    // A call sent too early to the policy would be there by the time of a whole other exchange.
    await fetch(`${trainer.url}/health`)
    expect(asked).toEqual([])
    answerInit.resolve()
    expect((await answered).status).toBe(200)
    expect([asked[0]?.body['tools'], tools]).toEqual([[addTool], [addTool]])
    await completed(init)
    await running
  })

  it('is shown to the hook before the loop gets the answer, and refused when that says so', async () => {
    const seen: AnsweredCall[] = []
    const running = trainer.run(
      { messages: [] },
      {
        onAnswer: (call) => {
          seen.push(call)
          return seen.length === 1 ? null : 'enough'
        },
      },
    )
    const init = await server.init(0)
    const messages = [{ role: 'user', content: 'hi' }]
    const text = await (await chat(init, { messages })).text()
    expect(seen).toEqual([{ messages, status: 200, text }])
    const refused = await chat(init, { messages })
    expect([refused.status, await refused.json()]).toEqual([400, { detail: 'enough' }])
    await completed(init)
    await running
  })

  it.each([401, 402, 404])('is answered with 424 when the policy answers %i', async (status) => {
    answer = async () => new Response('no', { status })
    const running = trainer.run({ messages: [] })
    const init = await server.init(0)
    const refused = await chat(init)
    expect([refused.status, await refused.json()]).toMatchObject([
      424,
      { error: { message: `The policy answered ${status}: no` } },
    ])
    await completed(init)
    await running
  })

  it('is answered with 500 when the policy throws or breaks off', async () => {
    const running = trainer.run({ messages: [] })
    const init = await server.init(0)
    answer = async () => {
      throw new Error('lost my mind')
    }
    const thrown = await chat(init)
    answer = async () =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode('{"cho')),
          pull: (controller) => controller.error(new Error('cable cut')),
        }),
      )
    const cut = await chat(init)
    expect([
      [thrown.status, await thrown.text()],
      [cut.status, await cut.text()],
    ]).toEqual([
      [500, expect.stringContaining('lost my mind')],
      [500, expect.stringContaining('cable cut')],
    ])
    await completed(init)
    await running
  })
})

describe('a result', () => {
  it('is committed before it is acknowledged and before run resolves', async () => {
    const events: string[] = []
    const finish = Promise.withResolvers<void>()
    const committing = Promise.withResolvers<void>()
    commit = async () => {
      committing.resolve()
      await finish.promise
      events.push('committed')
    }
    const running = trainer.run({ messages: [] }).then(() => events.push('resolved'))
    const answered = completed(await server.init(0)).then(() => events.push('acknowledged'))
    await committing.promise
    await fetch(`${trainer.url}/health`)
    expect(events).toEqual([])
    finish.resolve()
    await Promise.all([running, answered])
    expect(events).toEqual(['committed', 'resolved', 'acknowledged'])
  })

  it('whose commit failed is answered with 500, and may come again', async () => {
    commit = () => {
      if (commits.length === 1) throw new Error('disk full')
    }
    const running = trainer.run({ messages: [] })
    const init = await server.init(0)
    expect(await completed(init, { reward: 1 })).toEqual([500, { detail: 'disk full' }])
    expect(await completed(init, { reward: 1 })).toEqual(acknowledged)
    expect(await running).toMatchObject({ reward: 1 })
    expect(conflicts).toEqual([])
  })

  it('that is nested too deeply to be compared is refused, not a crash', async () => {
    const running = trainer.run({ messages: [] })
    const init = await server.init(0)
    const id = JSON.stringify(init.rollout_id)
    const deep = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`
    const body = `{"rollout_id":${id},"status":"COMPLETED","final_messages":[${deep}]}`
    const refused = await callTrainer(init, '/v1/rollout/completed', body)
    expect([refused.status, await refused.text()]).toEqual([
      422,
      expect.stringContaining('nested too deeply'),
    ])
    await completed(init)
    expect(await running).toMatchObject({ status: 'success' })
    expect(conflicts).toEqual([])
  })

  it('counts once: the same again is acknowledged, another one is reported and changes nothing', async () => {
    const running = trainer.run({ rolloutId: 'r', messages: [] })
    const init = await server.init(0)
    const same = await Promise.all(
      Array.from({ length: 10 }, () => completed(init, { reward: 1, finish_reason: 'stop' })),
    )
    expect(same).toEqual(Array.from({ length: 10 }, () => acknowledged))
    expect([commits.length, conflicts]).toEqual([1, []])
    expect(await completed(init, { status: 'ERROR' })).toEqual(acknowledged)
    expect(conflicts).toEqual([{ rolloutId: 'r', kind: 'completed' }])
    expect([commits.length, await running]).toMatchObject([1, { status: 'success', reward: 1 }])
  })
})

describe('a deadline', () => {
  it('ends the rollout; a result that comes later is acknowledged without effect', async () => {
    const outcome = await trainer.run({ messages: [], timeoutMs: 20 })
    expect(outcome).toMatchObject({
      status: 'timeout',
      errorMessage: 'no result within 0.02 s',
      finalMessages: [],
      metrics: null,
    })
    expect(await completed(await server.init(0))).toEqual(acknowledged)
    expect([commits, conflicts]).toEqual([[outcome], []])
  })
})

describe('giving up', () => {
  it('rejects with the reason, commits the end and refuses further model calls', async () => {
    const abort = new AbortController()
    const running = trainer.run({ messages: [] }, { signal: abort.signal })
    const init = await server.init(0)
    const reason = new Error('changed my mind')
    abort.abort(reason)
    await expect(running).rejects.toBe(reason)
    expect(commits).toMatchObject([{ status: 'cancelled' }])
    expect((await chat(init)).status).toBe(410)
    expect(await completed(init)).toEqual(acknowledged)
  })

  it('is what closing does to rollouts that run', async () => {
    const running = trainer.run({ messages: [] })
    await Promise.all([
      expect(running).rejects.toStrictEqual(
        new OsmosisError('cancelled', 'The trainer was closed before the rollout ended.'),
      ),
      server.init(0).then(() => trainer.close()),
    ])
  })
})
