import { readdir } from 'node:fs/promises'

import {
  AgentWorkflow,
  GroupGrader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
  type GroupGraderContext,
} from '@osmosis/core'
import { describe, expect, it, onTestFinished } from 'vitest'

import {
  post,
  sendJson,
  startPolicyEndpoint,
  temporaryFolder,
  statusAndBody,
  tokenAnswer,
} from '../../../test/kit/index.ts'
import {
  FakeMiles,
  type FakeMilesOptions,
  type TrainerFault,
} from '../../../test/kit/trainers/index.ts'
import {
  askPolicy,
  graderOf,
  startServer,
  workflowOf,
  type RunningServer,
  type RunningServerOptions,
} from './running-server.ts'

type Body = Parameters<FakeMilesOptions['model']>[0]

const yes: FakeMilesOptions['model'] = (body) => tokenAnswer(body, { content: 'yes' })
const row = { question: 'Is it?', answer: 'yes', level: 3 }

/** A trainer that does not retry. */
async function startMiles(options: Partial<FakeMilesOptions> = {}): Promise<FakeMiles> {
  const miles = await FakeMiles.start({ model: yes, retries: 0, ...options })
  onTestFinished(async () => miles.close())
  return miles
}

async function running(options: RunningServerOptions = {}): Promise<RunningServer> {
  return startServer({ run: true, ...options })
}

class AskTwice extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await askPolicy(ctx, 'a')
    await askPolicy(ctx, 'b')
  }
}

/** A workflow that asks and then waits for its end. */
function asksAndWaits(
  seen: { aborted?: boolean } = {},
): NonNullable<RunningServerOptions['workflow']> {
  return workflowOf(async (ctx) => {
    await askPolicy(ctx)
    await new Promise((_, reject) => {
      ctx.signal.addEventListener('abort', () => {
        seen.aborted = true
        reject(ctx.signal.reason as Error)
      })
    })
  })
}

describe('POST /run', () => {
  it('is answered at the deadline, although user code keeps the work folder for longer', async () => {
    const leave = Promise.withResolvers<void>()
    const parent = await temporaryFolder()
    const server = await running({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        await ctx.workFolder({ parent })
        await leave.promise
      }),
      run: { agentTimeoutSeconds: 1 },
    })
    const miles = await startMiles()
    const [{ answer } = {}] = await miles.generate(server.url, [row])
    expect(answer).toMatchObject({
      exit_status: 'failed',
      eval_report: { err_category: 'timeout' },
    })
    expect(await readdir(parent)).toHaveLength(1)
    leave.resolve()
    await server[Symbol.asyncDispose]()
    expect(await readdir(parent)).toEqual([])
  })

  it('runs a row to its end, and answers with the reward that is trained', async () => {
    const requests: Body[] = []
    const seen: unknown[] = []
    const miles = await startMiles({
      model: (body) => (requests.push(body), yes(body, '')),
      modelName: 'Qwen/Qwen3-4B',
    })
    await using server = await running({
      workflow: workflowOf(async (ctx) => {
        seen.push(ctx.metadata, ctx.group)
        await askPolicy(ctx)
      }),
      grader: graderOf((ctx: GraderContext) => ctx.setReward(ctx.label === 'yes' ? 0.25 : 0)),
    })
    const [rollout] = await miles.generate(server.url, [row])

    expect(rollout?.answer).toStrictEqual({
      reward: 0.25,
      exit_status: 'completed',
      eval_report: {},
      agent_metrics: { total_time: expect.any(Number) as number },
    })
    expect(miles.trained()).toMatchObject([{ group: 'g1', rolloutId: 'g1-1', reward: 0.25 }])
    expect(String.fromCodePoint(...(miles.trained()[0]?.ids ?? []))).toBe('{"content":"yes"}')
    expect(seen).toStrictEqual([{ level: 3 }, null])
    expect(requests).toMatchObject([
      { model: 'Qwen/Qwen3-4B', messages: [{ role: 'user', content: 'Is it?' }], temperature: 1 },
    ])
  })

  it('does not grade a row with a prompt alone, whose reward would be invented', async () => {
    const graded: unknown[] = []
    const miles = await startMiles({ filter: true })
    await using server = await running({
      grader: graderOf((ctx: GraderContext) => {
        graded.push(ctx.label)
        ctx.setReward(ctx.label === 'yes' ? 1 : 0)
      }),
    })
    const [rollout] = await miles.generate(server.url, [{ question: 'Is it?', answer: null }])
    expect(rollout?.answer).toMatchObject({
      exit_status: 'failed',
      eval_report: { err_message: expect.stringMatching(/neither a label nor metadata/) as string },
    })
    expect(graded).toEqual([])
    expect(miles.trained()).toEqual([])
  })

  it('uses the sampling parameters of the trainer, with the names of chat completions', async () => {
    const requests: Body[] = []
    const miles = await startMiles({
      model: (body) => (requests.push(body), yes(body, '')),
      samplingParams: {
        temperature: 0.5,
        max_new_tokens: 7,
        min_new_tokens: 2,
        sampling_seed: 4,
        top_k: -1,
        stop: null,
        n: 8,
        model: 'other',
        tools: [],
        constructor: 1,
      },
      maxSeqLen: 100,
    })
    await using server = await running()
    await miles.generate(server.url, [row], { attempts: 2 })

    const {
      messages: _,
      model,
      stream: _s,
      stream_options: _o,
      ...settings
    } = requests[0] ?? { messages: [] }
    expect(model).toBe('model')
    expect(settings).toStrictEqual({
      temperature: 0.5,
      max_tokens: 7,
      min_tokens: 2,
      seed: 4,
      top_k: -1,
    })
    const dropped = server.log.filter(({ message }) => message.includes('omitted'))
    expect(dropped.map(({ fields }) => fields)).toStrictEqual([
      { names: ['n', 'model', 'tools', 'constructor'] },
    ])
  })

  it('gives a removed rollout no reward', async () => {
    const miles = await startMiles({ filter: true })
    await using server = await running({
      grader: graderOf((ctx: GraderContext) => ctx.removeSample(ctx.sample.id)),
    })
    const [rollout] = await miles.generate(server.url, [row])
    expect(rollout?.answer).toMatchObject({ exit_status: 'removed', eval_report: {} })
    expect(rollout?.answer).not.toHaveProperty('reward')
    expect(rollout?.calls).toHaveLength(1)
    expect(miles.trained()).toStrictEqual([])
  })

  it('gives a rollout that failed after two calls no reward, so that its group is not trained', async () => {
    const workflow = workflowOf(async (ctx) => {
      await askPolicy(ctx, 'a')
      await askPolicy(ctx, 'b')
      if (ctx.metadata?.['level'] === 3) throw new Error('the sandbox has exited')
    })
    const grader = graderOf((ctx: GraderContext) => {
      for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
    })
    await using server = await running({ workflow, grader, run: { reward: 'mean' } })
    for (const filter of [true, false]) {
      const miles = await startMiles({ filter })
      const [failed, other] = await miles.generate(server.url, [row, { ...row, level: 1 }])
      expect(failed?.answer).toStrictEqual({
        exit_status: 'failed',
        eval_report: {
          err_message: expect.stringContaining('the sandbox has exited') as string,
          err_category: 'agent_error',
        },
        agent_metrics: { total_time: expect.any(Number) as number },
      })
      expect(failed?.calls).toHaveLength(2)
      expect(other?.answer).toMatchObject({ exit_status: 'completed', reward: 1 })
      // Without the filter the trainer uses 0 as the reward, whatever the answer was.
      const rewards = miles.trained().map(({ group, reward }) => [group, reward])
      expect(new Set(rewards.map(String))).toStrictEqual(
        new Set(filter ? ['g2,1'] : ['g1,0', 'g2,1']),
      )
    }
  })

  it('fails a rollout without a model call, which no trainer trains', async () => {
    const miles = await startMiles()
    await using server = await running({
      workflow: workflowOf(() => [{ role: 'user', content: 'a' }]),
    })
    const [rollout] = await miles.generate(server.url, [row])
    expect(rollout?.answer).toMatchObject({ exit_status: 'failed' })
    expect(miles.trained()).toStrictEqual([])
  })

  it.each([
    ['default', {}, 'failed', undefined],
    ['mean', { reward: 'mean' }, 'completed', 2],
    ['sum', { reward: 'sum' }, 'completed', 4],
    ['of one sample', { reward: { sampleId: 'b' } }, 'completed', 3],
    ['of one that there is not', { reward: { sampleId: 'c' } }, 'failed', undefined],
  ] as const)('reduces two samples to one number: %s', async (_, run, status, reward) => {
    const miles = await startMiles()
    await using server = await running({
      run,
      workflow: AskTwice,
      grader: graderOf((ctx: GraderContext) => {
        ctx.setSampleReward('a', 1)
        ctx.setSampleReward('b', 3)
      }),
    })
    const [rollout] = await miles.generate(server.url, [row])
    expect(rollout?.answer?.exit_status).toBe(status)
    expect(rollout?.answer?.reward).toBe(reward)
    const category = rollout?.answer?.eval_report.err_category
    expect(category).toBe(status === 'failed' ? 'validation_error' : undefined)
  })

  it('gives no reward to a rollout with removed samples, unless its trace omits them', async () => {
    await using server = await running({
      workflow: AskTwice,
      grader: graderOf((ctx: GraderContext) => {
        ctx.setSampleReward('a', 1)
        ctx.removeSample('b')
      }),
    })
    const miles = await startMiles({ filter: true })
    const [rollout] = await miles.generate(server.url, [row])
    expect(rollout?.answer).toMatchObject({
      exit_status: 'failed',
      eval_report: { err_message: expect.stringContaining('removed b') as string },
    })
    expect(miles.trained()).toStrictEqual([])
    const [traced] = await miles.generate(server.url, [{ ...row, trace: true }])
    expect(traced?.answer).toMatchObject({
      exit_status: 'completed',
      reward: 1,
      trace: [{ sample_id: 'a' }],
    })
  })

  it('traces each call as the policy answered it, and whether its tokens extend those before it', async () => {
    const said: unknown[] = []
    let tokens: number[] = []
    // The template renders the third answer otherwise than it was sampled.
    const prompts = [() => [1, 2], () => [...tokens, 3], () => [7], () => [7, 8, 9]]
    const miles = await startMiles({
      model: (body) => {
        const answer = tokenAnswer(body, { content: `answer ${said.length}` })
        const [choice] = answer.choices
        answer.prompt_token_ids = prompts[said.length]?.() ?? []
        tokens = [...answer.prompt_token_ids, ...(choice?.token_ids ?? [])]
        const entries = (choice?.logprobs?.content ?? []) as { logprob: number }[]
        const logprobs = entries.map((_, at) => -(at + 1) / 8)
        entries.forEach((entry, at) => (entry.logprob = logprobs[at] ?? 0))
        said.push({
          prompt_token_ids: answer.prompt_token_ids,
          completion_token_ids: choice?.token_ids,
          logprobs,
        })
        return answer
      },
    })
    await using server = await running({
      workflow: workflowOf(async (ctx) => {
        const policy = requireRolloutContext('test').registerPolicySample('main')
        const messages = [...ctx.prompt]
        const { choices } = await policy.complete({ messages })
        messages.push(...choices.map(({ message }) => message), { role: 'user', content: 'Go on.' })
        await policy.complete({ messages })
        const other = [{ role: 'user', content: 'Begin again.' }]
        for (let call = 0; call < 2; call += 1) {
          const answer = await policy.complete({ messages: other })
          other.push(...answer.choices.map(({ message }) => message as (typeof other)[number]))
        }
      }),
      grader: graderOf((ctx) => ctx.setReward(-2)),
    })
    const [traced] = await miles.generate(server.url, [{ ...row, trace: true }])
    expect(said).toHaveLength(4)
    expect(traced?.answer).toMatchObject({
      reward: -2,
      trace: [
        {
          reward: -2,
          calls: [true, true, false, false].map((extendsPrevious, at) => ({
            ...(said[at] as object),
            extends_previous: extendsPrevious,
          })),
        },
      ],
    })
  })

  it('cancels a rollout whose trainer disconnects, and remembers the session', async () => {
    const seen: { aborted?: boolean } = {}
    let requests = 0
    const called = Promise.withResolvers<void>()
    const miles = await startMiles({
      model: (body) => {
        requests += 1
        called.resolve()
        return yes(body, '')
      },
    })
    await using server = await running({ workflow: asksAndWaits(seen) })
    const hangUp = new AbortController()
    const generated = miles.generate(server.url, [row], { signal: hangUp.signal })
    await called.promise
    hangUp.abort()
    expect(await generated).toMatchObject([{ answer: null }])
    // A repeated request of the session gets the outcome of the first rollout, and no second one runs.
    const again = await post(`${server.url}/run`, {
      question: 'Is it?',
      base_url: `${miles.url}/sessions/g1-1/v1`,
      model: 'openai/model',
      session_server_instance_id: 'instance-1',
    })
    expect(await again.json()).toMatchObject({ exit_status: 'cancelled' })
    expect(seen.aborted).toBe(true)
    expect(requests).toBe(1)
  })

  it('repeats the answer to a session that lost it, and runs nothing again', async () => {
    let runs = 0
    await using server = await running({
      workflow: workflowOf(async (ctx) => {
        runs += 1
        await askPolicy(ctx)
      }),
    })
    const miles = await startMiles()
    const [rollout] = await miles.generate(server.url, [row])
    const again = await post(`${server.url}/run`, {
      ...row,
      base_url: `${miles.url}/sessions/g1-1/v1`,
      model: 'openai/model',
      session_server_instance_id: 'instance-1',
    })
    expect(await again.json()).toStrictEqual(rollout?.answer)
    expect(runs).toBe(1)
  })

  it('names the group of a row, and counts its attempts', async () => {
    const seen: unknown[] = []
    const workflow = workflowOf(async (ctx) => {
      seen.push(ctx.group)
      await askPolicy(ctx)
    })
    for (const groupSize of [undefined, 2]) {
      await using server = await running({ workflow, run: { groupColumn: 'id', groupSize } })
      const miles = await startMiles()
      await miles.generate(server.url, [{ ...row, id: 7 }], { attempts: 2 })
      await miles.generate(server.url, [{ ...row, id: 7 }, row])
    }
    expect(seen).toStrictEqual([
      { id: '7', attempt: 1 },
      { id: '7', attempt: 2 },
      { id: '7', attempt: 3 },
      null,
      { id: '7/1', attempt: 1, size: 2 },
      { id: '7/1', attempt: 2, size: 2 },
      { id: '7/2', attempt: 1, size: 2 },
      null,
    ])
  })

  it('grades the attempts of a row together, and rewards no failed one', async () => {
    class BestOfAll extends GroupGrader {
      async gradeGroup({ members, failed }: GroupGraderContext): Promise<void> {
        for (const member of members) member.setReward(member.attempt / 10 + failed.length)
      }
    }
    const workflow = workflowOf(async (ctx) => {
      await askPolicy(ctx)
      if (ctx.group?.attempt === 2) throw new Error('the sandbox has exited')
    })
    const run = { groupColumn: 'id', groupSize: 3 }
    await using server = await running({ workflow, grader: BestOfAll, run })
    const miles = await startMiles()
    const rollouts = await miles.generate(server.url, [{ ...row, id: 7 }], { attempts: 3 })
    const ends = rollouts.map(({ answer }) => `${answer?.exit_status} ${answer?.reward}`)
    expect(ends.toSorted()).toStrictEqual(['completed 1.1', 'completed 1.3', 'failed undefined'])
  })

  it('answers each rollout once while model calls are refused and interrupted', async () => {
    let runs = 0
    // At most two attempts of each call, because it is sent at most three times.
    const plans = [[], ['reset'], [503], [503, 'reset']] as const
    const left = new Map<string, TrainerFault[]>()
    const miles = await startMiles({
      faults({ path }) {
        const plan = left.get(path) ?? [...(plans[left.size % plans.length] ?? [])]
        left.set(path, plan)
        return plan.shift()
      },
    })
    await using server = await running({
      workflow: workflowOf(async (ctx) => {
        runs += 1
        await askPolicy(ctx)
      }),
    })
    const rollouts = await miles.generate(server.url, [row, row, row, row, row], { attempts: 10 })
    const ends = new Set(rollouts.map(({ answer }) => answer?.exit_status))
    expect(ends).toStrictEqual(new Set(['completed']))
    expect(runs).toBe(50)
    expect(miles.trained().map(({ reward }) => reward)).toStrictEqual(Array(50).fill(1))
  })

  it('is not cut by the limits for requests and idle connections', async () => {
    const miles = await startMiles()
    await using server = await running({
      limits: { headersSeconds: 0.2, requestSeconds: 0.4, keepAliveSeconds: 0.1 },
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        await new Promise((resolve) => setTimeout(resolve, 1500))
      }),
    })
    const [rollout] = await miles.generate(server.url, [row])
    expect(rollout?.answer).toMatchObject({ exit_status: 'completed', reward: 1 })
  })

  it.each([
    ['no prompt', { question: undefined }, /The row has no prompt: it needs one of the columns/],
    ['a prompt of another form', { question: 5 }, /The column question must be text or a list/],
    ['no policy', { base_url: undefined }, /Field required/],
    ['a policy that is not a URL', { base_url: 'nowhere' }, /must be an http or https URL/],
    ['no model', { model: '' }, /must name the model/],
    ['a row with a column trace', { trace: 'of thought' }, /must be true or false/],
    ['wrong parameters', { sampling_params: [] }, /sampling_params/],
  ])('refuses a body with %s', async (_, change, text) => {
    await using server = await running()
    const body = { ...row, base_url: 'http://127.0.0.1:9/v1', model: 'openai/m', ...change }
    const answer = await statusAndBody(await post(`${server.url}/run`, body))
    expect(answer.status).toBe(422)
    expect(JSON.stringify(answer.body)).toMatch(text)
  })

  it('refuses a policy that the server may not connect to', async () => {
    await using server = await running({ egress: { privateAddresses: 'refuse' } })
    const body = { ...row, base_url: 'http://127.0.0.1:9/v1', model: 'm' }
    const answer = await statusAndBody(await post(`${server.url}/run`, body))
    expect(answer.status).toBe(422)
    expect(JSON.stringify(answer.body)).toContain('this server does not connect there')
  })

  it('refuses a rollout when the queue is full, and runs it when it is requested again', async () => {
    const release = Promise.withResolvers<void>()
    let requests = 0
    const miles = await startMiles({
      retries: 60,
      retryMs: 20,
      model: async (body) => {
        requests += 1
        await release.promise
        return yes(body, '')
      },
    })
    await using server = await running({ maxConcurrent: 1, maxQueueDepth: 1 })
    const generated = miles.generate(server.url, [row], { attempts: 3 })
    const queued = async (): Promise<unknown> => (await fetch(`${server.url}/health`)).json()
    await expect.poll(queued).toMatchObject({ concurrency: { queued: 1, running: 1 } })
    const body = { ...row, base_url: 'http://127.0.0.1:9/v1', model: 'm' }
    const refused = await post(`${server.url}/run`, body)
    expect([refused.status, refused.headers.get('retry-after')]).toStrictEqual([429, '5'])
    release.resolve()
    const ends = (await generated).map(({ answer, calls }) => [answer?.exit_status, calls.length])
    expect(ends).toStrictEqual([
      ['completed', 1],
      ['completed', 1],
      ['completed', 1],
    ])
    expect(requests).toBe(3)
  })

  it('refuses what is nested too deeply', async () => {
    await using server = await running()
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    const answer = await post(
      `${server.url}/run`,
      `{"question":"a","answer":${deep},"base_url":"http://127.0.0.1:9/v1","model":"m"}`,
    )
    expect(await statusAndBody(answer)).toMatchObject({ status: 422 })
  })

  it('is served only if it is enabled, and requires the key', async () => {
    await using closed = await startServer()
    expect((await post(`${closed.url}/run`, row)).status).toBe(404)
    await using guarded = await running({ apiKey: 'key' })
    expect((await post(`${guarded.url}/run`, row)).status).toBe(401)
    expect((await post(`${guarded.url}/flush`, row)).status).toBe(401)
    const miles = await startMiles({ apiKey: 'key' })
    const [rollout] = await miles.generate(guarded.url, [row])
    expect(rollout?.answer).toMatchObject({ exit_status: 'completed' })
  })

  it('calls the policy with the key of the request, and does not reveal it', async () => {
    const policy = await startPolicyEndpoint((response) => sendJson(response, 401, {}))
    await using server = await running()
    const body = { ...row, base_url: policy.url, model: 'm', api_key: 'key-of-the-policy' }
    const answer = await (await post(`${server.url}/run`, body)).text()
    expect(policy.requests[0]?.headers.authorization).toBe('Bearer key-of-the-policy')
    expect(JSON.parse(answer)).toMatchObject({ exit_status: 'failed' })
    expect(answer + JSON.stringify(server.log)).not.toContain('key-of-the-policy')
  })

  it('removes secrets from failure messages', async () => {
    const miles = await startMiles({ apiKey: 'key-of-the-server' })
    await using server = await running({
      apiKey: 'key-of-the-server',
      workflow: workflowOf(() => {
        throw new Error('refused: key-of-the-server')
      }),
    })
    const [rollout] = await miles.generate(server.url, [row])
    expect(rollout?.answer?.eval_report.err_message).toMatch(/: refused: /)
    expect(JSON.stringify([rollout?.answer, server.log])).not.toContain('key-of-the-server')
  })

  it('leaves nothing in the outbox, because its caller is disconnected after a restart', async () => {
    const outboxDir = await temporaryFolder()
    const miles = await startMiles()
    await using server = await running({ outboxDir })
    await miles.generate(server.url, [row])
    expect((await readdir(outboxDir)).filter((name) => name.includes('rollout'))).toStrictEqual([])
  })

  it('counts its rollouts in the metrics', async () => {
    const miles = await startMiles()
    await using server = await running()
    await miles.generate(server.url, [row], { attempts: 2 })
    const figures = await (await fetch(`${server.url}/metrics`)).text()
    expect(figures).toContain('osmosis_http_requests_total{route="/run",status="200"} 2')
    expect(figures).toMatch(/osmosis_rollouts_ended_total\{outcome="success",.*\} 2/)
    expect(figures).toMatch(/osmosis_policy_calls_total\{.*\} 2/)
  })
})
