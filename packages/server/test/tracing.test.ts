import { context, propagation, trace, type TextMapPropagator } from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-node'
import { afterEach, expect, it } from 'vitest'

import { startServer } from './running-server.ts'

afterEach(() => {
  trace.disable()
  context.disable()
  propagation.disable()
})

const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`

it('the trace of a request continues in its rollout, its model calls and its callbacks', async () => {
  const exporter = new InMemorySpanExporter()
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register()
  await using running = await startServer()
  const { controller } = running
  await running.post({ rollout_id: 'traced' }, { traceparent })
  await controller.bodies()
  await running.post({ rollout_id: 'of-its-own' })
  await controller.until(() => controller.callbacks.length === 4)

  const sent = [...controller.policyHeaders, ...controller.callbacks.map(({ headers }) => headers)]
  const traceIds = sent.map((headers) => headers['traceparent']?.toString().split('-')[1])
  const given = 'a'.repeat(32)
  expect(traceIds.filter((id) => id === given)).toHaveLength(3)
  expect(traceIds.filter((id) => id !== undefined && id !== given)).toHaveLength(3)

  const roots = exporter.getFinishedSpans().filter(({ name }) => name.startsWith('invoke_workflow'))
  expect(roots.map((span) => span.parentSpanContext?.spanId)).toContain('b'.repeat(16))
})

it('without a provider neither model calls nor callbacks carry the trace of their request', async () => {
  await using running = await startServer()
  const { controller } = running
  await running.post({}, { traceparent })
  await controller.bodies()
  const sent = [...controller.policyHeaders, ...controller.callbacks.map(({ headers }) => headers)]
  expect(sent.map((headers) => headers['traceparent'])).toStrictEqual([
    undefined,
    undefined,
    undefined,
  ])
})

const fail = (): never => {
  throw new Error('out of order')
}
const idle: SpanProcessor = {
  onStart() {},
  onEnd() {},
  forceFlush: async () => {},
  shutdown: async () => {},
}

it.each([
  ['a processor, at the beginning of a span,', { spanProcessors: [{ ...idle, onStart: fail }] }],
  ['a processor, at the end of a span,', { spanProcessors: [{ ...idle, onEnd: fail }] }],
  ['a sampler', { sampler: { shouldSample: fail } }],
  ['a propagator', {}, { inject: fail, extract: fail, fields: () => [] }],
])('%s that throws does not affect rollouts', async (_, config, propagator?: TextMapPropagator) => {
  new NodeTracerProvider(config).register(propagator === undefined ? {} : { propagator })
  await using running = await startServer()
  expect((await running.post({}, { traceparent })).status).toBe(202)
  expect(await running.controller.bodies()).toMatchObject([
    { status: 'success' },
    { status: 'success', samples: { main: { reward: 1 } } },
  ])
})
