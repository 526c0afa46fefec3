import { readFileSync } from 'node:fs'
import path from 'node:path'

import {
  type CallToolResult,
  CallToolRequestSchema,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { mcpAgentLoop } from '@osmosis/agent-loop'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'

import {
  said,
  statusAndBody,
  temporaryFolder,
  type LoopTrainerAnswer,
} from '../../../test/kit/index.ts'
import { McpServers, startMcpApp, text } from './mcp-servers.ts'
import { metrics, toolCall, toolMessage, type RunningAppOptions } from './running-app.ts'

/** The body of the `completed` call of one rollout with these servers and answers. */
async function resultOf(
  servers: McpServers,
  chatAnswers: LoopTrainerAnswer[],
  options: RunningAppOptions & { maxConcurrentTools?: number; limits?: object } = {},
): Promise<Record<string, unknown>> {
  const { limits, ...appOptions } = options
  await using running = await startMcpApp(servers.connect, appOptions)
  running.trainer.chatAnswers.push(...chatAnswers)
  await running.init({ ...limits })
  await running.app.drain()
  const [body = {}] = running.trainer.completed.map((request) => request.body)
  return body
}

/** What the policy reads after it called `tools` in one answer. */
async function readAfter(servers: McpServers, tools: readonly object[]): Promise<unknown[]> {
  const body = await resultOf(servers, [said(null, tools)])
  expect(body).toMatchObject({ status: 'COMPLETED', finish_reason: 'stop' })
  return (body['final_messages'] as unknown[]).slice(2, -1)
}

describe('the tools of an MCP server', () => {
  const offered = async (servers: McpServers): Promise<unknown> => {
    await using running = await startMcpApp(servers.connect)
    return await statusAndBody(await running.init())
  }

  it('reach the trainer with their schemas, whatever they contain', async () => {
    const integer = {
      type: 'integer',
      minimum: Number.MIN_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
    }
    const servers = new McpServers((server) => {
      server.registerTool(
        'search',
        {
          description: 'Search',
          inputSchema: {
            query: z.string().describe('what for'),
            limit: z.int().min(1).max(50),
            order: z.enum(['new', 'old']).optional(),
            tag: z.string().nullable().optional(),
            at: z.union([z.int(), z.array(z.int())]).optional(),
            ratio: z.number().default(0.5),
          },
        },
        () => text(),
      )
      server.registerTool('now', {}, () => text())
    })
    expect(await offered(servers)).toEqual({
      status: 202,
      body: {
        rollout_id: 'r1',
        tools: [
          {
            type: 'function',
            function: {
              name: 'search',
              description: 'Search',
              parameters: {
                $schema: expect.any(String),
                type: 'object',
                properties: {
                  query: { type: 'string', description: 'what for' },
                  limit: { type: 'integer', minimum: 1, maximum: 50 },
                  order: { type: 'string', enum: ['new', 'old'] },
                  tag: { type: ['string', 'null'] },
                  at: { anyOf: [integer, { type: 'array', items: integer }] },
                  ratio: { type: 'number', default: 0.5 },
                },
                required: ['query', 'limit'],
              },
              strict: false,
            },
          },
          {
            type: 'function',
            function: {
              name: 'now',
              description: 'Tool: now',
              parameters: { type: 'object', properties: {}, required: [] },
              strict: false,
            },
          },
        ],
      },
    })
  })

  it('are those of all pages of its list, with unchanged references', async () => {
    const inputSchema = {
      type: 'object' as const,
      properties: { at: { $ref: '#/$defs/point' }, mode: { type: ['integer', 'null'], enum: [1] } },
      required: ['at'],
      $defs: { point: { type: 'object', properties: { x: { type: 'integer' } } } },
    }
    const pages = { first: 'second', second: 'third' } as Record<string, string | undefined>
    const servers = new McpServers(({ server }) => {
      server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
        const page = params?.cursor ?? 'first'
        return { tools: [{ name: page, inputSchema }], nextCursor: pages[page] }
      })
    })
    expect(await offered(servers)).toMatchObject({
      body: {
        tools: ['first', 'second', 'third'].map((name) => ({
          function: { name, description: `Tool: ${name}`, parameters: inputSchema },
        })),
      },
    })
  })

  it('are refused when a page of the list leads to an earlier one', async () => {
    const pages = { first: 'second', second: 'third', third: 'second' } as Record<string, string>
    const servers = new McpServers(({ server }) => {
      server.setRequestHandler(ListToolsRequestSchema, ({ params }) => ({
        tools: [],
        nextCursor: pages[params?.cursor ?? 'first'],
      }))
    })
    expect(await offered(servers)).toStrictEqual({
      status: 500,
      body: {
        detail:
          "[GET_TOOLS_EXCEPTION] getTools: getTools() threw OsmosisError: The MCP server's list of tools is endless: it repeats nextCursor 'second'; each page must lead to a new one.",
      },
    })
  })
})

describe('a call of an MCP tool', () => {
  it.each<[string, CallToolResult, string]>([
    ['text', text('one', 'two'), 'one\ntwo'],
    ['nothing', text(), ''],
    [
      'data',
      { ...text('ignored'), structuredContent: { a: 1, b: ['é'] } },
      '{"a": 1, "b": ["\\u00e9"]}',
    ],
    [
      'data that is one text',
      { ...text('ignored'), structuredContent: { result: 'plain' } },
      'plain',
    ],
    ['data that is one number', { content: [], structuredContent: { result: 8 } }, '8'],
    [
      'data with more than a result',
      { content: [], structuredContent: { result: 8, unit: 'm' } },
      '{"result": 8, "unit": "m"}',
    ],
    [
      'parts that are not text',
      {
        content: [
          { type: 'text', text: 'see' },
          { type: 'image', data: 'AA==', mimeType: 'image/png' },
          { type: 'audio', data: 'AA==', mimeType: 'audio/wav' },
          { type: 'resource', resource: { uri: 'file:///a.txt', text: 'text of a file' } },
          { type: 'resource', resource: { uri: 'file:///a.bin', blob: 'AA==' } },
          { type: 'resource_link', uri: 'file:///b.txt', name: 'b' },
        ],
      },
      'see\n[image: image/png]\n[audio: audio/wav]\ntext of a file\n[resource: file:///a.bin]\n[resource_link: file:///b.txt]',
    ],
    ['an error', { ...text('no such file'), isError: true }, 'Error: no such file'],
    [
      'an error without a word',
      { content: [], isError: true },
      'Error: The tool failed and gave no reason',
    ],
  ])('that gives %s is answered to the policy', async (_, given, expected) => {
    const servers = new McpServers((server) => void server.registerTool('f', {}, () => given))
    expect(await readAfter(servers, [toolCall('c', 'f')])).toStrictEqual([
      toolMessage('c', expected),
    ])
  })

  it('gets the arguments of the policy, which receives its errors', async () => {
    const calls: unknown[] = []
    const servers = new McpServers((server) => {
      const inputSchema = { a: z.number(), b: z.number() }
      server.registerTool('divide', { inputSchema }, ({ a, b }) => {
        calls.push([a, b])
        if (b === 0) throw new Error('Division by zero')
        return text(String(a / b))
      })
    })
    const read = await readAfter(servers, [
      toolCall('1', 'divide', '{"a": 6, "b": 3}'),
      toolCall('2', 'divide', '{"a": 6, "b": 0}'),
      toolCall('3', 'divide', '{"a": 6'),
      toolCall('4', 'divide', '{"a": "six", "b": 3}'),
      toolCall('5', 'multiply', '{"a": 6, "b": 3}'),
    ])
    expect(read).toEqual([
      toolMessage('1', '2'),
      toolMessage('2', 'Error: Division by zero'),
      toolMessage('3', expect.stringMatching(/^Error: Invalid JSON arguments: ./) as never),
      toolMessage(
        '4',
        expect.stringMatching(/^Error: .*Invalid arguments for tool divide/s) as never,
      ),
      toolMessage('5', 'Error: Unknown tool: multiply'),
    ])
    // Unknown tools and invalid arguments never reached the server.
    expect(calls).toStrictEqual([
      [6, 3],
      [6, 0],
    ])
  })

  it('does not run without arguments where the answer ended at the limit of its length', async () => {
    const servers = new McpServers((server) => {
      server.registerTool('delete', {}, () => text('deleted'))
    })
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: [toolCall('1', 'delete', ''), toolCall('2', 'delete', '')],
    }
    const cut = { choices: [{ message, finish_reason: 'length' }] }
    expect(await resultOf(servers, [cut])).toMatchObject({
      status: 'COMPLETED',
      final_messages: expect.arrayContaining([
        toolMessage('1', 'deleted'),
        toolMessage(
          '2',
          'Error: The answer reached the limit of its length before the arguments of this call',
        ),
      ]),
    })
  })

  it.each([
    ['of JSON-RPC', -32_603],
    ['of its own', 404],
  ])('that the server refuses with a code %s is an error for the policy', async (_, code) => {
    const servers = new McpServers(({ server }) => {
      const tools = [{ name: 'f', inputSchema: { type: 'object' as const } }]
      server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }))
      server.setRequestHandler(CallToolRequestSchema, () => {
        throw Object.assign(new Error('too busy'), { code })
      })
    })
    expect(await readAfter(servers, [toolCall('c', 'f')])).toStrictEqual([
      toolMessage('c', `Error: MCP error ${code}: too busy`),
    ])
  })

  it('waits when the maximum number of concurrent calls is reached', async () => {
    let running = 0
    let peak = 0
    const servers = new McpServers((server) => {
      server.registerTool('f', {}, async () => {
        running += 1
        peak = Math.max(peak, running)
        await new Promise(setImmediate)
        running -= 1
        return text('ok')
      })
    })
    const calls = ['a', 'b', 'c', 'd'].map((id) => toolCall(id, 'f'))
    await resultOf(servers, [said(null, calls)], { maxConcurrentTools: 2 })
    expect(peak).toBe(2)
    for (const maxConcurrentTools of [0, 1.5]) {
      expect(() =>
        mcpAgentLoop({ name: 'x', connect: servers.connect, maxConcurrentTools }),
      ).toThrow(RangeError)
    }
  })

  it('may take as long as its rollout', async () => {
    const started = Promise.withResolvers<void>()
    const done = Promise.withResolvers<void>()
    const servers = new McpServers((server) => {
      server.registerTool('f', {}, async () => {
        started.resolve()
        await done.promise
        return text('at last')
      })
    })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    await using running = await startMcpApp(servers.connect)
    running.trainer.chatAnswers.push(said(null, [toolCall('c', 'f')]))
    await running.init()
    await started.promise
    await vi.advanceTimersByTimeAsync(3_600_000)
    vi.useRealTimers()
    done.resolve()
    const [body] = await running.trainer.results()
    expect(body?.['final_messages']).toMatchObject([{}, {}, toolMessage('c', 'at last'), {}])
  })
})

describe('a rollout with MCP tools', () => {
  const servers = new McpServers((server) => {
    server.registerTool('f', {}, () => text('ok'))
  })
  const twoCalls = said(null, [toolCall('a', 'f'), toolCall('b', 'f')])

  it('calls with the parameters of the trainer, counts its calls, and sets no reward', async () => {
    await using running = await startMcpApp(servers.connect)
    running.trainer.chatAnswers.push(twoCalls, said('done'))
    await running.init({ completion_params: { temperature: 0.2 } })
    const [body] = await running.trainer.results()

    expect(running.trainer.chats.map((chat) => chat.body['temperature'])).toStrictEqual([0.2, 0.2])
    expect(body).toEqual({
      rollout_id: 'r1',
      status: 'COMPLETED',
      final_messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: null, tool_calls: [toolCall('a', 'f'), toolCall('b', 'f')] },
        toolMessage('a', 'ok'),
        toolMessage('b', 'ok'),
        { role: 'assistant', content: 'done' },
      ],
      finish_reason: 'stop',
      metrics: metrics({
        num_llm_calls: 2,
        num_tool_calls: 2,
        prompt_tokens: 20,
        response_tokens: 8,
      }),
      extra_fields: {},
    })
  })

  const ended = (finish_reason: string | null): object => ({
    choices: [{ message: { role: 'assistant', content: 'x' }, finish_reason }],
    usage: null,
  })
  it.each<[string, LoopTrainerAnswer[], object, object]>([
    ['for the reason of the policy', [ended('length')], {}, { finish_reason: 'length' }],
    ['with stop when that gave none', [ended(null)], {}, { finish_reason: 'stop' }],
    [
      'when it has had its turns',
      [twoCalls, twoCalls],
      { max_turns: 2 },
      { finish_reason: 'max_turns', metrics: { num_llm_calls: 2, num_tool_calls: 4 } },
    ],
    [
      'when it has used up its tokens, before further calls',
      [twoCalls, twoCalls],
      { max_tokens_total: 8 },
      { finish_reason: 'max_tokens', metrics: { num_llm_calls: 2, num_tool_calls: 2 } },
    ],
  ])('ends %s', async (_, answers, limits, expected) => {
    expect(await resultOf(servers, answers, { limits })).toMatchObject({
      status: 'COMPLETED',
      ...expected,
    })
  })

  it('writes a trace of the conversation', async () => {
    const debugDir = await temporaryFolder()
    await resultOf(servers, [said(null, [toolCall('a', 'f')])], { debugDir })
    const lines = readFileSync(path.join(debugDir, 'r1.jsonl'), 'utf8').trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { event: 'pre_llm', turn: 0, num_messages: 1 },
      { event: 'llm_response', turn: 0, message: { tool_calls: [toolCall('a', 'f')] } },
      { event: 'tool_results', turn: 0, results: [toolMessage('a', 'ok')] },
      { event: 'pre_llm', turn: 1, num_messages: 3 },
      { event: 'llm_response', turn: 1, message: { content: 'ok' }, finish_reason: 'stop' },
      { event: 'rollout_complete', finish_reason: 'stop' },
    ])
  })
})
