import { SpanStatusCode, trace } from '@opentelemetry/api'
import {
  createToolErrorResult,
  createToolResult,
  executeToolCalls,
  getToolCallInfo,
  type RolloutContext,
} from '@osmosis/agent-loop'
import { expect, it, vi } from 'vitest'

import { said } from '../../../test/kit/index.ts'
import { RecordedSpans } from '../../../test/kit/recorded-spans.ts'
import { McpServers, startMcpApp, text } from './mcp-servers.ts'
import { loopOf, startApp } from './running-app.ts'

const toolCall = (id: string, name: string): object => ({
  id,
  type: 'function',
  function: { name, arguments: '{"password":"secret argument"}' },
})

/** Calls the policy, executes its tool calls, and ends with a reward. */
async function askAndExecute(
  ctx: RolloutContext,
  execute: (name: string) => Promise<string> = async () => 'secret result',
): Promise<ReturnType<RolloutContext['complete']>> {
  const messages = [...ctx.request.messages]
  const { message, toolCalls } = await ctx.chat(messages, ctx.request.completionParams)
  const results = await executeToolCalls(toolCalls, async (call) => {
    const { toolCallId, name } = getToolCallInfo(call)
    return createToolResult(toolCallId, await execute(name))
  })
  messages.push(message, ...results)
  const last = await ctx.chat(messages, ctx.request.completionParams)
  return ctx.complete([...messages, last.message], { reward: 0.5 })
}

const traceId = 'a'.repeat(32)
const traceparent = `00-${traceId}-${'b'.repeat(16)}-01`

it('a rollout of a loop is a trace of its model calls and tools, with its reward', async () => {
  using spans = new RecordedSpans()
  await using running = await startApp({ loop: loopOf(async (ctx) => askAndExecute(ctx)) })
  const { trainer } = running
  const answer = { ...said('done'), id: 'answer-2', model: 'policy-7' }
  trainer.chatAnswers.push(said(null, [toolCall('c1', 'look'), toolCall('c2', 'look')]), answer)
  const params = { temperature: 0.5, max_tokens: 64 }
  await running.init({ api_key: 'trainer-key', completion_params: params }, { traceparent })
  await trainer.results()

  expect(spans.trees).toStrictEqual([
    {
      name: 'invoke_workflow test-loop',
      below: [
        { name: 'chat default' },
        { name: 'execute_tool look' },
        { name: 'execute_tool look' },
        { name: 'chat default' },
      ],
    },
  ])
  const [root] = spans.named('invoke_workflow test-loop')
  expect(root?.parentSpanContext?.spanId).toBe('b'.repeat(16))
  expect(root?.attributes).toStrictEqual({
    'gen_ai.operation.name': 'invoke_workflow',
    'gen_ai.workflow.name': 'test-loop',
    'osmosis.rollout.id': 'r1',
  })
  expect(root?.events.map(({ name, attributes }) => ({ name, attributes }))).toStrictEqual([
    {
      name: 'gen_ai.evaluation.result',
      attributes: {
        'gen_ai.evaluation.name': 'test-loop',
        'gen_ai.evaluation.score.value': 0.5,
        'gen_ai.response.id': 'answer-2',
      },
    },
  ])
  const chats = spans.named('chat default')
  expect(chats[1]?.attributes).toStrictEqual({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'osmosis',
    'gen_ai.request.model': 'default',
    'gen_ai.request.temperature': 0.5,
    'gen_ai.request.top_p': 1,
    'gen_ai.request.max_tokens': 64,
    'gen_ai.response.id': 'answer-2',
    'gen_ai.response.model': 'policy-7',
    'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.usage.input_tokens': 10,
    'gen_ai.usage.output_tokens': 4,
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(trainer.url).port),
    'osmosis.rollout.id': 'r1',
  })
  expect(spans.named('execute_tool look')[0]?.attributes).toStrictEqual({
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'look',
    'gen_ai.tool.type': 'function',
    'gen_ai.tool.call.id': 'c1',
    'osmosis.rollout.id': 'r1',
  })
  // Each model call continues in its own span, and the result in that of the rollout.
  const parents = [...trainer.chats, ...trainer.completed].map(
    ({ headers }) => headers['traceparent'],
  )
  expect(parents).toStrictEqual(
    [...chats, root].map((span) => `00-${traceId}-${span?.spanContext().spanId}-01`),
  )
  const written = spans.ended.map(({ attributes, events, status }) => [attributes, events, status])
  expect(JSON.stringify(written)).not.toMatch(/secret|trainer-key/)
})

it('the conversation is in the trace if the standard variable enables it', async () => {
  vi.stubEnv('OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', 'true')
  using spans = new RecordedSpans()
  await using running = await startApp()
  await running.init()
  await running.trainer.results()
  vi.unstubAllEnvs()
  const { attributes } = spans.named('chat default')[0] ?? {}
  expect(JSON.parse(String(attributes?.['gen_ai.input.messages']))).toStrictEqual([
    { role: 'user', parts: [{ type: 'text', content: 'hi' }] },
  ])
  expect(JSON.parse(String(attributes?.['gen_ai.output.messages']))).toStrictEqual([
    { role: 'assistant', parts: [{ type: 'text', content: 'ok' }], finish_reason: 'stop' },
  ])
})

it('a loop that throws, one that reports an error and a trainer that refuses are failures', async () => {
  using spans = new RecordedSpans()
  const ends: Record<string, (ctx: RolloutContext) => ReturnType<typeof askAndExecute>> = {
    thrown: async () => {
      throw new TypeError('no such thing')
    },
    'given-up': async (ctx) => ctx.error('too hard'),
    refused: async (ctx) => askAndExecute(ctx),
  }
  const loop = loopOf(async (ctx) => {
    const run = ends[ctx.request.rolloutId]
    return run === undefined ? ctx.complete([]) : run(ctx)
  })
  await using running = await startApp({ loop })
  running.trainer.chatAnswers.push(400)
  for (const rollout_id of [...Object.keys(ends), 'fine']) {
    await running.init({ rollout_id })
  }
  await running.trainer.results(4)

  const roots = spans.named('invoke_workflow test-loop')
  const seen = roots.map(({ attributes, status }) => [
    attributes['osmosis.rollout.id'],
    attributes['error.type'],
    status.message?.slice(0, 13),
  ])
  expect(new Map(seen.map(([id, ...rest]) => [id, rest]))).toStrictEqual(
    new Map([
      ['thrown', ['TypeError', 'no such thing']],
      ['given-up', ['agent_error', 'too hard']],
      ['refused', ['policy_http_error', 'The policy en']],
      ['fine', [undefined, undefined]],
    ]),
  )
  const [chat] = spans.named('chat default')
  expect(chat?.attributes['error.type']).toBe('policy_http_error')
  expect(roots.filter(({ status }) => status.code === SpanStatusCode.ERROR)).toHaveLength(3)
})

it('a tool that throws or reports an error has a failed span', async () => {
  using spans = new RecordedSpans()
  const loop = loopOf(async (ctx) => {
    const { toolCalls } = await ctx.chat(ctx.request.messages)
    const execute = async (call: unknown): Promise<object> => {
      const { toolCallId, name } = getToolCallInfo(call)
      if (name === 'throw') throw new RangeError('secret reason')
      return createToolErrorResult(toolCallId, 'secret reason')
    }
    await executeToolCalls(toolCalls, execute, { maxConcurrent: 1 }).catch(() => [])
    return ctx.complete([])
  })
  await using running = await startApp({ loop })
  running.trainer.chatAnswers.push(said(null, [toolCall('c1', 'throw'), toolCall('c2', 'say')]))
  await running.init()
  await running.trainer.results()
  expect(spans.trees).toStrictEqual([
    {
      name: 'invoke_workflow test-loop',
      below: [
        { name: 'chat default' },
        { name: 'execute_tool throw', error: 'RangeError' },
        { name: 'execute_tool say', error: 'tool_failed' },
      ],
    },
  ])
  expect(JSON.stringify(spans.ended.map(({ status }) => status))).not.toContain('secret')
})

it('a tool that still runs when its rollout ends has a span that ends then, once', async () => {
  using spans = new RecordedSpans()
  const started = Promise.withResolvers<void>()
  const released = Promise.withResolvers<string>()
  let left: Promise<unknown> | undefined
  const loop = loopOf(async (ctx) => {
    left = askAndExecute(ctx, async () => {
      started.resolve()
      return released.promise
    }).catch(() => undefined)
    await started.promise
    return ctx.complete([])
  })
  await using running = await startApp({ loop })
  running.trainer.chatAnswers.push(said(null, [toolCall('c1', 'hang')]))
  await running.init()
  await running.trainer.results()
  released.resolve('late')
  await left
  expect(spans.trees).toStrictEqual([
    {
      name: 'invoke_workflow test-loop',
      below: [{ name: 'chat default' }, { name: 'execute_tool hang', error: 'rollout_ended' }],
    },
  ])
})

it('the tools of an MCP server have spans, and those of failed tools are failed', async () => {
  using spans = new RecordedSpans()
  const servers = new McpServers((server) => {
    server.registerTool('look', {}, () => text('seen'))
    server.registerTool('break', {}, () => ({ ...text('secret reason'), isError: true }))
  })
  await using running = await startMcpApp(servers.connect, { maxConcurrentTools: 1 })
  const calls = ['look', 'break', 'none'].map((name) => toolCall(name, name))
  running.trainer.chatAnswers.push(said(null, calls))
  await running.init()
  await running.trainer.results()
  expect(spans.trees).toMatchObject([
    {
      name: 'invoke_workflow mcp',
      below: [
        { name: 'chat default' },
        { name: 'execute_tool look' },
        { name: 'execute_tool break', error: 'tool_failed' },
        { name: 'execute_tool none', error: 'tool_failed' },
        { name: 'chat default' },
      ],
    },
  ])
  expect(spans.named('execute_tool look')[0]?.status.code).toBe(SpanStatusCode.UNSET)
})

it('concurrent rollouts have separate traces', async () => {
  using spans = new RecordedSpans()
  await using running = await startApp({ loop: loopOf(async (ctx) => askAndExecute(ctx)) })
  running.trainer.policy = ({ body }) =>
    (body['messages'] as object[]).length > 1 ? said('done') : said(null, [toolCall('c', 'look')])
  const ids = Array.from({ length: 20 }, (_, n) => `r${n}`)
  await Promise.all(ids.map(async (rollout_id) => running.init({ rollout_id })))
  await running.trainer.results(ids.length)
  const byTrace = Map.groupBy(spans.ended, (span) => span.spanContext().traceId)
  expect(byTrace.size).toBe(ids.length)
  for (const own of byTrace.values()) {
    expect(own).toHaveLength(4)
    expect(new Set(own.map(({ attributes }) => attributes['osmosis.rollout.id'])).size).toBe(1)
  }
})

it('without a provider nothing is traced, and no header is added', async () => {
  using spans = new RecordedSpans()
  trace.disable()
  await using running = await startApp({ loop: loopOf(async (ctx) => askAndExecute(ctx)) })
  const { trainer } = running
  trainer.chatAnswers.push(said(null, [toolCall('c', 'look')]))
  await running.init({}, { traceparent })
  await trainer.results()
  expect(spans.ended).toStrictEqual([])
  const sent = [...trainer.chats, ...trainer.completed]
  expect(sent.map(({ headers }) => headers['traceparent'])).toStrictEqual(sent.map(() => undefined))
})
