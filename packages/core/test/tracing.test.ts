import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-node'
import {
  AgentWorkflow,
  Grader,
  GroupGrader,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
  type GroupGraderContext,
} from '@osmosis/core'
import { reportOf, type RolloutRequest } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

import { answerStream, sendJson, sendStream, startPolicyEndpoint } from '../../../test/kit/index.ts'

const exporter = new InMemorySpanExporter()

beforeEach(() => {
  exporter.reset()
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register()
})

afterEach(() => {
  trace.disable()
  context.disable()
  propagation.disable()
  vi.unstubAllEnvs()
})

class Solve extends AgentWorkflow {
  async run({ prompt }: AgentWorkflowContext): Promise<void> {
    const rollout = requireRolloutContext('test')
    for (const name of ['solver', 'critic']) {
      rollout.registerSampleSource(name, {
        getSample: (id) => toRolloutSample({ id, messages: [...prompt] }),
      })
      await rollout.policy(name).complete({ messages: [...prompt], temperature: 0.5 })
    }
  }
}

class Judge extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    if (ctx.label === 'broken') throw new TypeError('no such field')
    ctx.setSampleReward('solver', 1)
    ctx.setSampleReward('critic', 0.25)
  }
}

async function run(url: string, overrides: Partial<RolloutRequest> = {}): Promise<void> {
  const backend = new LocalBackend({ workflow: Solve, grader: Judge, maxConcurrent: 100 })
  await reportOf(backend.execute(requestTo(url, overrides)))
}

function requestTo(url: string, overrides: Partial<RolloutRequest>): RolloutRequest {
  return {
    rolloutId: 'r1',
    initialMessages: [{ role: 'user', content: 'secret question' }],
    label: 'yes',
    metadata: null,
    chatCompletionsUrl: url,
    apiKey: 'llm-key',
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: true,
    ...overrides,
  }
}

/** Spans as a tree: a name and what is below it, in the order of their ends. */
function tree(spans: readonly ReadableSpan[], parent?: string): object[] {
  return spans
    .filter(({ parentSpanContext }) => parentSpanContext?.spanId === parent)
    .map(({ name, spanContext }, _, all) => {
      const span = all.find((other) => other.spanContext === spanContext && other.name === name)
      const below = tree(spans, span?.spanContext().spanId)
      return below.length === 0 ? { name } : { name, below }
    })
}

function named(name: string): ReadableSpan {
  const span = exporter.getFinishedSpans().find((each) => each.name === name)
  if (span === undefined) throw new Error(`no span ${name}`)
  return span
}

async function answering(): Promise<{ url: string; parents: (string | undefined)[] }> {
  const parents: (string | undefined)[] = []
  const { url } = await startPolicyEndpoint((response, _, { headers }) => {
    parents.push(headers['traceparent']?.toString())
    sendStream(response, answerStream('yes'))
  })
  return { url, parents }
}

it('a rollout is a trace of its samples, their model calls and the grading', async () => {
  const { url, parents } = await answering()
  await run(url)

  const spans = exporter.getFinishedSpans()
  expect(tree(spans)).toStrictEqual([
    {
      name: 'invoke_workflow Solve',
      below: [
        { name: 'invoke_agent solver', below: [{ name: 'chat osmosis-rollout' }] },
        { name: 'invoke_agent critic', below: [{ name: 'chat osmosis-rollout' }] },
        { name: 'grade Judge' },
      ],
    },
  ])
  const calls = spans.filter(({ name }) => name === 'chat osmosis-rollout')
  expect(parents).toStrictEqual(
    calls.map((span) => `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01`),
  )
  expect(named('invoke_workflow Solve').attributes).toStrictEqual({
    'gen_ai.operation.name': 'invoke_workflow',
    'gen_ai.workflow.name': 'Solve',
    'osmosis.rollout.id': 'r1',
  })
  expect(calls[0]?.attributes).toStrictEqual({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'osmosis',
    'gen_ai.request.model': 'osmosis-rollout',
    'gen_ai.request.stream': true,
    'gen_ai.request.temperature': 0.5,
    'gen_ai.response.id': 'chatcmpl-1',
    'gen_ai.response.model': 'policy',
    'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.response.time_to_first_chunk': expect.any(Number),
    'gen_ai.usage.input_tokens': 3,
    'gen_ai.usage.output_tokens': 2,
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(url).port),
    'osmosis.rollout.id': 'r1',
    'osmosis.sample.id': 'solver',
  })
  expect(
    named('grade Judge').events.map(({ name, attributes }) => ({ name, attributes })),
  ).toStrictEqual(
    [
      ['solver', 1],
      ['critic', 0.25],
    ].map(([id, reward]) => ({
      name: 'gen_ai.evaluation.result',
      attributes: {
        'gen_ai.evaluation.name': 'Judge',
        'gen_ai.evaluation.score.value': reward,
        'gen_ai.response.id': 'chatcmpl-1',
        'osmosis.sample.id': id,
      },
    })),
  )
  expect(JSON.stringify(spans.map(({ attributes, events }) => [attributes, events]))).not.toMatch(
    /secret question|llm-key/,
  )
})

it('rollouts concurrently have traces of their own', async () => {
  const { url } = await answering()
  await Promise.all(Array.from({ length: 20 }, (_, n) => run(url, { rolloutId: `r${n}` })))

  const spans = exporter.getFinishedSpans()
  const byTrace = Map.groupBy(spans, (span) => span.spanContext().traceId)
  expect(byTrace.size).toBe(20)
  for (const own of byTrace.values()) {
    expect(own).toHaveLength(6)
    expect(new Set(own.map(({ attributes }) => attributes['osmosis.rollout.id'])).size).toBe(1)
  }
})

it('every member of a group has the grading in its trace, and user code is in that of the first', async () => {
  const { url } = await answering()
  class Ranks extends GroupGrader {
    async gradeGroup({ members }: GroupGraderContext): Promise<void> {
      trace.getTracer('user').startSpan('comparing').end()
      for (const member of members) {
        for (const id of member.samples.keys()) member.setSampleReward(id, member.attempt)
      }
    }
  }
  const backend = new LocalBackend({ workflow: Solve, grader: Ranks })
  await Promise.all(
    [1, 2].map((attempt) =>
      reportOf(
        backend.execute(
          requestTo(url, { rolloutId: `r${attempt}`, group: { id: 'g', attempt, size: 2 } }),
        ),
      ),
    ),
  )

  const gradings = exporter.getFinishedSpans().filter(({ name }) => name === 'grade Ranks')
  expect(
    gradings.map(({ attributes, events }) => [
      attributes['osmosis.rollout.id'],
      events.map((event) => event.attributes?.['gen_ai.evaluation.score.value']),
    ]),
  ).toStrictEqual([
    ['r1', [1, 1]],
    ['r2', [2, 2]],
  ])
  expect(named('comparing').parentSpanContext?.spanId).toBe(gradings[0]?.spanContext().spanId)
})

it('spans of user code belong to the rollout, and nothing of it is left behind', async () => {
  const { url } = await answering()
  class Traced extends Solve {
    override async run(ctx: AgentWorkflowContext): Promise<void> {
      trace.getTracer('user').startSpan(`mine ${ctx.rolloutId}`).end()
      await super.run(ctx)
    }
  }
  const backend = new LocalBackend({ workflow: Traced })
  const request = { rolloutId: 'r1', initialMessages: [], label: null, metadata: null } as const
  const more = { chatCompletionsUrl: url, apiKey: undefined, grade: false } as const
  const limits = { agentTimeoutSeconds: null, graderTimeoutSeconds: null } as const
  await reportOf(backend.execute({ ...request, ...more, ...limits }))

  const root = named('invoke_workflow Traced').spanContext().spanId
  expect(named('mine r1').parentSpanContext?.spanId).toBe(root)
  expect(trace.getActiveSpan()).toBeUndefined()
})

it('the trace of the sender of the rollout continues', async () => {
  const { url } = await answering()
  const traceId = 'a'.repeat(32)
  await run(url, { traceHeaders: { traceparent: `00-${traceId}-${'b'.repeat(16)}-01` } })

  expect(named('invoke_workflow Solve').spanContext().traceId).toBe(traceId)
  expect(named('invoke_workflow Solve').parentSpanContext?.spanId).toBe('b'.repeat(16))
})

it('what failed says so, and carries no key', async () => {
  const { url } = await startPolicyEndpoint((response) =>
    sendJson(response, 400, { error: { message: 'bad llm-key' } }),
  )
  await run(url)
  for (const name of ['invoke_workflow Solve', 'chat osmosis-rollout']) {
    const { status, attributes } = named(name)
    expect(status.code).toBe(SpanStatusCode.ERROR)
    expect(status.message).toMatch(/answered 400/)
    expect(status.message).not.toContain('llm-key')
    expect(attributes['error.type']).toBe('policy_http_error')
  }

  exporter.reset()
  await run((await answering()).url, { label: 'broken' })
  expect(named('grade Judge').status).toStrictEqual({
    code: SpanStatusCode.ERROR,
    message: 'no such field',
  })
  expect(named('grade Judge').events).toMatchObject([
    { name: 'gen_ai.evaluation.result', attributes: { 'error.type': 'TypeError' } },
  ])
  expect(named('invoke_workflow Solve').status.code).toBe(SpanStatusCode.ERROR)
  expect(named('invoke_agent solver').status.code).toBe(SpanStatusCode.UNSET)
})

it('an error that cannot be read, or is long, fails its rollout and no more than that', async () => {
  const refuse = (): never => {
    throw new Error('not to be read')
  }
  const unreadable = new Proxy(new Error(), { get: refuse, getPrototypeOf: refuse })
  // Its cut would go through a key.
  const long = Object.assign(new Error('llm-key'.repeat(4000)), { name: 'n'.repeat(10_000) })
  const causes: unknown[] = []
  for (const error of [unreadable, long]) {
    class Fails extends AgentWorkflow {
      async run(): Promise<void> {
        throw error
      }
    }
    const backend = new LocalBackend({ workflow: Fails })
    const report = await reportOf(backend.execute(requestTo('http://127.0.0.1:1', {})))
    causes.push(report.workflow.failure?.cause)
  }
  expect(
    causes.map((cause) => [unreadable, long].findIndex((error) => error === cause)),
  ).toStrictEqual([0, 1])
  const [first, second] = exporter.getFinishedSpans()
  expect(first?.attributes['error.type']).toBe('_OTHER')
  expect(second?.attributes['error.type']).toBe('n'.repeat(100))
  expect(second?.status.message).toMatch(/^\*+… \[cut: 12000 characters in all\]$/)
})

it('what was said is in the trace when the standard variable asks for it', async () => {
  vi.stubEnv('OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', 'true')
  await run((await answering()).url)
  const { attributes } = named('chat osmosis-rollout')
  expect(JSON.parse(String(attributes['gen_ai.input.messages']))).toStrictEqual([
    { role: 'user', parts: [{ type: 'text', content: 'secret question' }] },
  ])
  expect(JSON.parse(String(attributes['gen_ai.output.messages']))).toStrictEqual([
    { role: 'assistant', parts: [{ type: 'text', content: 'yes' }], finish_reason: 'stop' },
  ])
})

it('without a provider nothing is traced, and no header is added', async () => {
  trace.disable()
  const { url, parents } = await answering()
  await run(url)
  expect(parents).toStrictEqual([undefined, undefined])
  expect(exporter.getFinishedSpans()).toStrictEqual([])
})

it('records the request to the policy: the model, the settings and the streaming of its wire', async () => {
  const { url } = await startPolicyEndpoint((response) => {
    const message = { role: 'assistant', content: 'ok' }
    const choices = [{ index: 0, message, finish_reason: 'stop', logprobs: null }]
    sendJson(response, 200, { id: 'c-1', created: 1, model: 'policy', choices })
  })
  await run(url, { wire: { stream: false, model: 'weights-3', body: { temperature: 1 } } })
  const [call] = exporter.getFinishedSpans().filter(({ name }) => name === 'chat weights-3')
  expect(call?.attributes).toMatchObject({
    'gen_ai.request.model': 'weights-3',
    'gen_ai.request.temperature': 1,
    'gen_ai.response.id': 'c-1',
  })
  expect(call?.attributes).not.toHaveProperty('gen_ai.request.stream')
})
