import { type GraderContext, requireRolloutContext } from '@osmosis/core'
import type { ChatCompletion, ChatCompletionRequest } from '@osmosis/core/policy'
import type { HealthResponseBody } from '@osmosis/protocol/wire'
import { describe, expect, it, onTestFinished } from 'vitest'

import {
  post,
  sendJson,
  startPolicyEndpoint,
  statusAndBody,
  tokenAnswer,
  type TestPolicyEndpoint,
} from '../../../test/kit/index.ts'
import { FakeMiles, type FakeMilesOptions } from '../../../test/kit/trainers/index.ts'
import { askPolicy, graderOf, OneForYes, startServer, workflowOf } from './running-server.ts'

const row = { question: 'Is it?', answer: 'yes' }

async function startMiles(options: Partial<FakeMilesOptions> = {}): Promise<FakeMiles> {
  const model: FakeMilesOptions['model'] = (body) => tokenAnswer(body, { content: 'yes' })
  const miles = await FakeMiles.start({ model, retries: 0, ...options })
  onTestFinished(async () => miles.close())
  return miles
}

/** Lets a test wait until this many have arrived, and then lets all of them continue. */
class Gate {
  #count = 0
  readonly #come = new Set<() => void>()
  readonly #open = Promise.withResolvers<void>()

  /** For user code: what is cancelled continues as well. */
  async pass(signal: AbortSignal): Promise<void> {
    this.#count += 1
    for (const look of this.#come) look()
    const { promise: cancelled, reject } = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    await Promise.race([this.#open.promise, cancelled])
  }

  async reachedBy(count: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = (): void => {
      if (this.#count >= count) resolve()
    }
    this.#come.add(look)
    look()
    await promise
  }

  open(): void {
    this.#open.resolve()
  }
}

/** Resolves when a rollout waits for a slot. */
async function untilQueued(url: string): Promise<void> {
  const read = async (): Promise<number> => {
    const health = (await (await fetch(`${url}/health`)).json()) as HealthResponseBody
    return health.concurrency.queued
  }
  await expect.poll(read).toBe(1)
}

const waitingIn = (gate: Gate): ReturnType<typeof workflowOf> =>
  workflowOf(async (ctx) => {
    await askPolicy(ctx)
    await gate.pass(ctx.signal)
  })

describe('POST /flush', () => {
  it('cancels the rollouts of its instance, and no others', async () => {
    const gate = new Gate()
    await using server = await startServer({ run: true, workflow: waitingIn(gate) })
    const [one, other] = [
      await startMiles({ instanceId: 'one', filter: true }),
      await startMiles({ instanceId: 'other', filter: true }),
    ]
    const flushed = one.generate(server.url, [row], { attempts: 2 })
    const remaining = other.generate(server.url, [row], { attempts: 2 })
    await gate.reachedBy(4)
    expect(await one.flush(server.url)).toBe(2)
    expect((await flushed).map(({ answer }) => answer)).toMatchObject([
      { exit_status: 'cancelled', eval_report: { err_message: expect.any(String) as string } },
      { exit_status: 'cancelled' },
    ])
    gate.open()
    expect((await remaining).map(({ answer }) => answer?.exit_status)).toStrictEqual([
      'completed',
      'completed',
    ])
    expect(one.trained()).toStrictEqual([])
    expect(other.trained()).toHaveLength(2)
    expect(await one.flush(server.url)).toBe(0)
    expect(await one.flush(server.url, 'unknown')).toBe(0)
  })

  it('refuses a body without an instance', async () => {
    await using server = await startServer({ run: true })
    expect((await post(`${server.url}/flush`, {})).status).toBe(422)
    expect((await post(`${server.url}/flush`, { session_server_instance_id: '' })).status).toBe(422)
  })
})

describe('a server that ends', () => {
  it('waits for the answers of queued, running and grading rollouts', async () => {
    const [workflow, grading] = [new Gate(), new Gate()]
    const server = await startServer({
      run: true,
      maxConcurrent: 1,
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        if (ctx.metadata?.['phase'] !== 'grading') await workflow.pass(ctx.signal)
      }),
      grader: graderOf(async (ctx: GraderContext) => {
        if (ctx.metadata?.['phase'] === 'grading') await grading.pass(ctx.signal)
        ctx.setReward(1)
      }),
    })
    const miles = await startMiles()
    const generated = [miles.generate(server.url, [{ ...row, phase: 'grading' }])]
    await grading.reachedBy(1)
    generated.push(miles.generate(server.url, [row]))
    await workflow.reachedBy(1)
    generated.push(miles.generate(server.url, [row]))
    await untilQueued(server.url)

    const ended = server.server.drain()
    const late = await miles.generate(server.url, [row])
    expect(late).toMatchObject([{ answer: null, calls: [] }])
    grading.open()
    workflow.open()
    for (const [rollout] of await Promise.all(generated)) {
      expect(rollout?.answer).toMatchObject({ exit_status: 'completed', reward: 1 })
    }
    await ended
    await server[Symbol.asyncDispose]()
  })

  it.each(['workflow', 'grading', 'queue', 'model call'])(
    'cancels rollouts that outlast its wait in the %s, and reports no reward',
    async (phase) => {
      const gate = new Gate()
      const forever = new AbortController().signal
      const server = await startServer({
        run: true,
        maxConcurrent: 1,
        drainSeconds: 0.05,
        workflow: workflowOf(async (ctx) => {
          await askPolicy(ctx)
          if (phase === 'workflow' || phase === 'queue') await gate.pass(ctx.signal)
        }),
        grader: graderOf(async (ctx: GraderContext) => {
          if (phase === 'grading') await gate.pass(ctx.signal)
          ctx.setReward(1)
        }),
      })
      const miles = await startMiles({
        filter: true,
        model: async (body) => {
          if (phase === 'model call') await gate.pass(forever)
          return tokenAnswer(body, { content: 'yes' })
        },
      })
      const generated = [miles.generate(server.url, [row])]
      await gate.reachedBy(1)
      if (phase === 'queue') {
        generated.push(miles.generate(server.url, [row]))
        await untilQueued(server.url)
      }
      await server[Symbol.asyncDispose]()
      for (const [rollout] of await Promise.all(generated)) {
        expect(rollout?.answer).toMatchObject({ exit_status: 'cancelled' })
        expect(rollout?.answer).not.toHaveProperty('reward')
      }
      expect(miles.trained()).toStrictEqual([])
    },
  )
})

describe('trace', () => {
  const ask = (miles: FakeMiles, change: object = {}): object => ({
    ...row,
    base_url: miles.url.replace(/$/, '/sessions/g1-1/v1'),
    model: 'openai/model',
    trace: true,
    ...change,
  })

  /** A policy that records nothing, as its trainer sees it. */
  async function policy(
    answer: (body: ChatCompletionRequest, n: number) => ChatCompletion,
  ): Promise<TestPolicyEndpoint> {
    return startPolicyEndpoint((response, n, { body }) => sendJson(response, 200, answer(body, n)))
  }

  it('answers with the training data, and requests it from the policy', async () => {
    const { url, requests } = await policy((body, n) =>
      tokenAnswer(body, { content: 'ab' }, `c${n}`),
    )
    await using server = await startServer({
      run: { reward: 'mean' },
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx, 'a')
        await askPolicy(ctx, 'b')
        await askPolicy(ctx, 'c')
        const title = { messages: [{ role: 'user', content: 'a title' }], temperature: 0.2 }
        await requireRolloutContext('test')
          .policy('a')
          .complete(title, { purpose: 'title', trainable: false })
      }),
      grader: graderOf((ctx: GraderContext) => {
        ctx.setSampleReward('a', 1)
        ctx.setStepRewards('a', [0.75, null])
        ctx.setSampleReward('b', 2)
        ctx.removeSample('c')
      }),
    })
    const body = { ...row, base_url: url, model: 'openai/model', trace: true }
    const answer = await statusAndBody(await post(`${server.url}/run`, body))
    const ids = Array.from('{"content":"ab"}', (letter) => letter.codePointAt(0))
    const call = {
      prompt_token_ids: expect.arrayContaining([91]) as number[],
      completion_token_ids: ids,
      logprobs: ids.map(() => -0.5),
      extends_previous: true,
      finish_reason: 'stop',
      version: null,
      purpose: 'agent',
      trainable: true,
      sampling: {},
      step_reward: null,
    }
    const title = {
      purpose: 'title',
      trainable: false,
      extends_previous: false,
      sampling: { temperature: 0.2 },
    }
    expect(answer).toStrictEqual({
      status: 200,
      body: {
        reward: 1.5,
        exit_status: 'completed',
        eval_report: {},
        agent_metrics: { total_time: expect.any(Number) as number },
        trace: [
          {
            sample_id: 'a',
            reward: 1,
            calls: [
              { ...call, id: 'c1', step_reward: 0.75 },
              { ...call, id: 'c4', ...title },
            ],
          },
          { sample_id: 'b', reward: 2, calls: [{ ...call, id: 'c2' }] },
        ],
      },
    })
    expect(requests).toHaveLength(4)
    for (const request of requests) {
      expect(request.body).toMatchObject({ logprobs: true, return_token_ids: true })
    }
  })

  it('contains nothing to train without a reward', async () => {
    const { url } = await policy((body) => tokenAnswer(body, { content: 'ab' }))
    await using server = await startServer({
      run: true,
      grader: graderOf(() => {
        throw new Error('no judge')
      }),
    })
    const body = { ...row, base_url: url, model: 'model', trace: true }
    const answer = await statusAndBody(await post(`${server.url}/run`, body))
    expect(answer.body).toMatchObject({ exit_status: 'failed' })
    expect(answer.body).not.toHaveProperty('trace')
  })

  it('has null for what a policy did not report', async () => {
    const { url } = await policy((body) => {
      const answer = tokenAnswer(body, { content: 'ab' })
      const { prompt_token_ids: _, ...rest } = answer
      const choices = rest.choices.map(({ token_ids: _ids, ...choice }) => choice)
      return { ...rest, choices: choices.map((choice) => ({ ...choice, logprobs: null })) }
    })
    await using server = await startServer({ run: true, grader: OneForYes })
    const body = { ...row, base_url: url, model: 'model', trace: true }
    const answer = (await (await post(`${server.url}/run`, body)).json()) as {
      trace: { calls: object[] }[]
    }
    expect(answer.trace[0]?.calls).toMatchObject([
      { prompt_token_ids: null, completion_token_ids: null, logprobs: null, trainable: false },
    ])
  })

  it.each([
    ['2 logprobs for 3 tokens', { logprobs: 2 }],
    ['4 logprobs for 3 tokens', { logprobs: 4 }],
    ['no logprobs', { logprobs: 0 }],
    ['no token ids', { ids: 0 }],
    ['no logprobs', { logprobs: undefined }],
    ['no token ids', { ids: undefined }],
    ['no token ids', { prompt: undefined }],
    ['logprobs that are no finite numbers', { logprob: '-1e999' }],
    ['logprobs that are no finite numbers', { logprob: 'null' }],
  ])('has nothing to train of an answer with %s, and says so', async (missing, change) => {
    const said = { ids: 3, logprobs: 3, prompt: 2, logprob: '-0.5', ...change }
    const list = (length: number | undefined, item: string): string =>
      length === undefined ? 'null' : `[${Array<string>(length).fill(item).join(',')}]`
    const message = '{"role":"assistant","content":"ab"}'
    const logprobs = `{"content":${list(said.logprobs, `{"logprob":${said.logprob}}`)}}`
    const choice = `{"index":0,"message":${message},"finish_reason":"stop","token_ids":${list(said.ids, '7')},"logprobs":${logprobs}}`
    const { url } = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        `{"id":"c1","model":"m","choices":[${choice}],"prompt_token_ids":${list(said.prompt, '5')}}`,
      )
    })
    await using server = await startServer({ run: true, grader: OneForYes })
    const body = { ...row, base_url: url, model: 'model', trace: true }
    const answer = await statusAndBody(await post(`${server.url}/run`, body))
    expect(answer.body).toMatchObject({
      exit_status: 'completed',
      trace: [{ calls: [{ trainable: false, untrainable_reason: `the policy gave ${missing}` }] }],
    })
  })

  it('runs each request, although all use the same policy', async () => {
    const { url, requests } = await policy((body) => tokenAnswer(body, { content: 'ab' }))
    await using server = await startServer({ run: true })
    const shared = { session_server_instance_id: 'one', base_url: url, model: 'model' }
    const body = { ...row, ...shared, trace: true }
    for (let n = 0; n < 2; n += 1) {
      expect((await post(`${server.url}/run`, body)).status).toBe(200)
    }
    expect(requests).toHaveLength(2)
  })

  it.each([true, false])('quotes what the policy refuses (trace: %s)', async (trace) => {
    await using server = await startServer({ run: true })
    const refusedWith = async (status: number, body: object, key = 'a-wrong-key') => {
      const { url } = await startPolicyEndpoint((response) => sendJson(response, status, body))
      const asked = { ...row, base_url: url, api_key: key, model: 'x', trace }
      const answer = await statusAndBody(await post(`${server.url}/run`, asked))
      const { exit_status: end, eval_report: report } = answer.body as {
        exit_status: string
        eval_report: { err_message: string; err_category?: string }
      }
      return [end, report.err_category, report.err_message.replace(/ \(http.*$/, '')]
    }
    const unknown = { object: 'error', message: 'The model `x` does not exist.', code: 404 }
    expect(await refusedWith(404, unknown)).toEqual([
      'failed',
      'http_error',
      'The policy endpoint answered 404: The model `x` does not exist.',
    ])
    const noKey = { error: { message: 'No connected db.', type: 'no_db_connection', code: '400' } }
    expect(await refusedWith(400, noKey)).toEqual([
      'failed',
      'http_error',
      'The policy endpoint answered 400: No connected db. Check the API key that the rollout was sent with (api_key).',
    ])
    const [end, , message] = await refusedWith(404, { error: { message: 'File Not Found' } })
    expect([end, message]).toEqual(
      trace
        ? [
            'failed',
            'The policy endpoint answered 404: File Not Found. base_url is a base URL: "/chat/completions" is appended to it.',
          ]
        : [
            'cancelled',
            'The trainer withdrew the rollout: its own policy route answered 404: File Not Found',
          ],
    )
  })

  it('treats an unknown model as a failure, not as a withdrawal', async () => {
    const miles = await startMiles()
    await using server = await startServer({ run: true })
    const shared = await statusAndBody(await post(`${server.url}/run`, ask(miles)))
    expect(shared.body).toMatchObject({ exit_status: 'failed' })
    const own = await statusAndBody(await post(`${server.url}/run`, ask(miles, { trace: false })))
    expect(own.body).toMatchObject({ exit_status: 'cancelled' })
  })
})
