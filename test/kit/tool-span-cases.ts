import { trace } from '@opentelemetry/api'
import { fault, startPolicyServer, type PolicyServer } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'

import { execute } from './adapter-rollouts.ts'
import { RecordedSpans } from './recorded-spans.ts'

/** A tool whose parameters do not matter. */
export interface TracedTestTool {
  readonly name: string
  readonly execute: () => Promise<string>
}

/** An adapter whose tool spans are tested. */
export interface ToolSpanAdapter {
  /** Runs an agent of this name with these tools to its end. */
  run(name: string, tools: readonly TracedTestTool[]): Promise<unknown>
  /** The recorded error of a tool that threw a TypeError. */
  readonly thrown: string
}

const call = (id: string, name: string): { id: string; name: string; arguments: string } => ({
  id,
  name,
  arguments: '{"password":"secret argument"}',
})

const broken = async (): Promise<string> => {
  throw new TypeError('secret reason')
}

/** Declares the tests of tool spans for an adapter. */
export function describeToolSpans(adapterName: string, adapter: ToolSpanAdapter): void {
  const workflow = async (server: PolicyServer, tools: TracedTestTool[], names = ['solver']) =>
    execute(server, async () => {
      await Promise.all(names.map(async (name) => adapter.run(name, tools)))
    })

  describe(`tool spans: ${adapterName}`, () => {
    it('a tool call is below its sample, with its name and id and without what was said', async () => {
      using spans = new RecordedSpans()
      await using server = await startPolicyServer([
        { toolCalls: [call('call-7', 'look')] },
        'done',
      ])
      await workflow(server, [{ name: 'look', execute: async () => 'secret result' }])

      const chat = { name: 'chat osmosis-rollout' }
      expect(spans.trees).toMatchObject([
        {
          below: [
            { name: 'invoke_agent solver', below: [chat, { name: 'execute_tool look' }, chat] },
          ],
        },
      ])
      expect(spans.named('execute_tool look')).toHaveLength(1)
      expect(spans.named('execute_tool look')[0]?.attributes).toStrictEqual({
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'look',
        'gen_ai.tool.type': 'function',
        'gen_ai.tool.call.id': 'call-7',
        'osmosis.rollout.id': 'rollout-1',
        'osmosis.sample.id': 'solver',
      })
      const written = spans.ended.map(({ attributes, events, status }) => [
        attributes,
        events,
        status,
      ])
      expect(JSON.stringify(written)).not.toContain('secret')
    })

    it('tool calls concurrently have a span each, with equal ids as well', async () => {
      using spans = new RecordedSpans()
      const ids = ['a', 'b', 'c']
      await using server = await startPolicyServer(({ body }) =>
        (body['messages'] as object[]).some(
          (message) => 'role' in message && message.role === 'tool',
        )
          ? 'done'
          : { toolCalls: ids.map((id) => call(id, 'meet')) },
      )
      // Each waits for all: those of two agents, whose calls have equal ids.
      const all = Promise.withResolvers<void>()
      let running = 0
      const meet = async (): Promise<string> => {
        running += 1
        if (running === 2 * ids.length) all.resolve()
        await all.promise
        return 'met'
      }
      await workflow(server, [{ name: 'meet', execute: meet }], ['left', 'right'])

      const samples = ['left', 'right'].map((name) => spans.named(`invoke_agent ${name}`)[0])
      for (const sample of samples) {
        const own = spans
          .named('execute_tool meet')
          .filter((span) => span.parentSpanContext?.spanId === sample?.spanContext().spanId)
        expect(new Set(own.map(({ attributes }) => attributes['gen_ai.tool.call.id']))).toEqual(
          new Set(ids),
        )
      }
      expect(spans.named('execute_tool meet')).toHaveLength(2 * ids.length)
    })

    it('a tool that throws has a span that failed, without the message', async () => {
      using spans = new RecordedSpans()
      await using server = await startPolicyServer([{ toolCalls: [call('c', 'break')] }, 'done'])
      await workflow(server, [{ name: 'break', execute: broken }])

      const [span, ...others] = spans.named('execute_tool break')
      expect(others).toStrictEqual([])
      expect(span?.attributes['error.type']).toBe(adapter.thrown)
      expect(JSON.stringify([span?.status, span?.attributes, span?.events])).not.toContain('secret')
    })

    it('a tool that still runs when its rollout ends has a span that ends then, once', async () => {
      using spans = new RecordedSpans()
      await using server = await startPolicyServer([{ toolCalls: [call('c', 'hang')] }, 'done'])
      const started = Promise.withResolvers<void>()
      const released = Promise.withResolvers<string>()
      const hang = async (): Promise<string> => {
        started.resolve()
        return released.promise
      }
      let left: Promise<unknown> | undefined
      await execute(server, async () => {
        left = adapter.run('solver', [{ name: 'hang', execute: hang }]).catch(() => undefined)
        await started.promise
        throw new Error('the workflow gave up')
      })
      expect(spans.trees).toMatchObject([
        { below: [{ below: [{}, { name: 'execute_tool hang', error: 'rollout_ended' }] }] },
      ])
      released.resolve('late')
      await left
      expect(spans.named('execute_tool hang')).toHaveLength(1)
    })

    it('a rollout that breaks off behind its tools leaves no span open', async () => {
      using spans = new RecordedSpans()
      await using server = await startPolicyServer([
        { toolCalls: [call('c', 'look')] },
        fault.status(400),
      ])
      await workflow(server, [{ name: 'look', execute: async () => 'seen' }])
      const refused = { name: 'chat osmosis-rollout', error: 'policy_http_error' }
      expect(spans.trees).toMatchObject([
        { below: [{ below: [{}, { name: 'execute_tool look' }, refused] }] },
      ])
      expect(spans.named('execute_tool look')).toHaveLength(1)
    })

    it('records no spans without a provider', async () => {
      using spans = new RecordedSpans()
      trace.disable()
      await using server = await startPolicyServer([{ toolCalls: [call('c', 'look')] }, 'done'])
      await workflow(server, [{ name: 'look', execute: async () => 'seen' }])
      expect(spans.ended).toStrictEqual([])
      expect(server.requests).toHaveLength(2)
    })
  })
}
