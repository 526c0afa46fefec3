import { run, tool } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { callAdd, execute } from '../../../test/kit/index.ts'
import { RecordedSpans } from '../../../test/kit/recorded-spans.ts'
import { describeToolSpans, type TracedTestTool } from '../../../test/kit/tool-span-cases.ts'
import { policyAgent } from './rollout.ts'

const sdkTool = (given: TracedTestTool) =>
  tool({
    name: given.name,
    description: given.name,
    parameters: {
      type: 'object',
      properties: {},
      required: [],
      additionalProperties: true,
    } as never,
    strict: false,
    execute: async () => given.execute(),
  })

describeToolSpans('run', {
  run: async (name, tools) =>
    run(policyAgent({ tools: tools.map(sdkTool) }), 'go', {
      session: new OsmosisMemorySession({ name }),
    }),
  thrown: 'tool_failed',
})

describeToolSpans('run, streamed', {
  run: async (name, tools) => {
    const session = new OsmosisMemorySession({ name })
    const result = await run(policyAgent({ tools: tools.map(sdkTool) }), 'go', {
      session,
      stream: true,
    })
    await result.completed
  },
  thrown: 'tool_failed',
})

test('a tool whose error ends the run has a span that failed', async () => {
  using spans = new RecordedSpans()
  await using server = await startPolicyServer([callAdd])
  const broken = tool({
    name: 'add',
    description: 'Breaks.',
    parameters: {
      type: 'object',
      properties: {},
      required: [],
      additionalProperties: true,
    } as never,
    strict: false,
    errorFunction: null,
    execute: async () => {
      throw new Error('broken')
    },
  })
  const { workflow } = await execute(server, async () =>
    run(policyAgent({ tools: [broken] }), 'go', { session: new OsmosisMemorySession() }),
  )
  expect(workflow.status).toBe('failure')
  expect(spans.trees).toMatchObject([
    { below: [{ below: [{}, { name: 'execute_tool add', error: 'tool_failed' }] }] },
  ])
})

test('the tools of an agent that is a tool belong to the sample around it', async () => {
  using spans = new RecordedSpans()
  const call = (name: string) => ({
    toolCalls: [{ id: 'same', name, arguments: '{"input":"go"}' }],
  })
  await using server = await startPolicyServer([call('helper'), call('look'), 'seen', 'done'])
  await execute(server, async () => {
    const look = sdkTool({ name: 'look', execute: async () => 'a view' })
    const helper = policyAgent({ name: 'helper', tools: [look] }).asTool({
      toolName: 'helper',
      toolDescription: 'Helps.',
    })
    await run(policyAgent({ tools: [helper] }), 'go', {
      session: new OsmosisMemorySession({ name: 'main' }),
    })
  })
  const [sample] = spans.named('invoke_agent main')
  for (const name of ['execute_tool helper', 'execute_tool look']) {
    const parents = spans.named(name).map(({ parentSpanContext }) => parentSpanContext?.spanId)
    expect(parents).toStrictEqual([sample?.spanContext().spanId])
  }
})
