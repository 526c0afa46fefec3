import type { ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { mcpAgentLoop, type McpClient } from '@osmosis/agent-loop'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { type FakeTrainer, type PeerRequest, said, statusAndBody } from '../../../test/kit/index.ts'
import { HttpMcpServer, McpServers, startMcpApp, text } from './mcp-servers.ts'
import { startApp, toolCall } from './running-app.ts'

const counts = ({ opened, closed }: McpServers): number[] => [opened, closed]

/** Contents of the messages of the trainer's first result. */
async function contents(trainer: FakeTrainer): Promise<unknown[]> {
  const [body = {}] = await trainer.results()
  return (body['final_messages'] as { content: unknown }[]).map(({ content }) => content)
}

describe('the connections of a rollout with MCP tools', () => {
  it('are two, for its tools and for its run, both closed before its result is delivered', async () => {
    const servers = new McpServers((server) => {
      server.registerTool('f', {}, () => text(counts(servers).join()))
    })
    await using running = await startMcpApp(servers.connect)
    running.trainer.chatAnswers.push(said(null, [toolCall('c', 'f')]))
    await running.init()
    expect(await contents(running.trainer)).toStrictEqual(['hi', null, '2,1', 'ok'])
    expect(counts(servers)).toStrictEqual([2, 2])
  })

  it('are closed when the rollout fails', async () => {
    const servers = new McpServers(() => undefined)
    await using running = await startMcpApp(servers.connect)
    running.trainer.chatAnswers.push(400)
    await running.init()
    expect(await running.trainer.results()).toMatchObject([{ status: 'ERROR' }])
    expect(counts(servers)).toStrictEqual([2, 2])
  })

  it('are closed when the rollout is ended, and the call is cancelled on the server', async () => {
    const started = Promise.withResolvers<AbortSignal>()
    const servers = new McpServers((server) => {
      server.registerTool('hang', {}, async ({ signal }) => {
        started.resolve(signal)
        return Promise.withResolvers<never>().promise
      })
    })
    await using running = await startMcpApp(servers.connect)
    running.trainer.chatAnswers.push(said(null, [toolCall('c', 'hang')]))
    await running.init()
    const signal = await started.promise
    await running.app.drain({ waitSeconds: 0 })
    expect(running.trainer.completed.map(({ body }) => body)).toMatchObject([
      { status: 'ERROR', error_message: 'rollout server shut down' },
    ])
    await expect.poll(() => counts(servers)).toStrictEqual([2, 2])
    expect(signal.aborted).toBe(true)
  })

  it('are closed when the tools cannot be loaded, and a repeated request gets them', async () => {
    let working = false
    const servers = new McpServers(({ server }) => {
      server.setRequestHandler(ListToolsRequestSchema, () => {
        if (!working) throw new Error('warming up')
        return { tools: [] }
      })
    })
    await using running = await startMcpApp(servers.connect)
    expect(await statusAndBody(await running.init())).toStrictEqual({
      status: 500,
      body: {
        detail:
          '[GET_TOOLS_EXCEPTION] getTools: getTools() threw McpError: MCP error -32603: warming up',
      },
    })
    expect(counts(servers)).toStrictEqual([1, 1])
    working = true
    expect((await running.init()).status).toBe(202)
    await running.trainer.results()
    expect(counts(servers)).toStrictEqual([3, 3])
  })

  it.each<[string, () => Promise<void>]>([
    ['rejects', async () => Promise.reject(new Error('stuck'))],
    [
      'throws',
      () => {
        throw new Error('stuck')
      },
    ],
  ])('cost no result when closing %s', async (_, close) => {
    const servers = new McpServers((server) => void server.registerTool('f', {}, () => text('ok')))
    const connect = async (): Promise<McpClient> =>
      Object.assign(await servers.connect(), { close })
    await using running = await startMcpApp(connect)
    running.trainer.chatAnswers.push(said(null, [toolCall('c', 'f')]))
    await running.init()
    expect(await contents(running.trainer)).toStrictEqual(['hi', null, 'ok', 'ok'])
  })

  it('are not waited for longer than 5 seconds when they do not close', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const servers = new McpServers((server) => void server.registerTool('f', {}, () => text('ok')))
    const closing = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
    const unseen = closing.values()
    const connect = async (): Promise<McpClient> => {
      const close = async (): Promise<never> => {
        unseen.next().value?.resolve()
        return Promise.withResolvers<never>().promise
      }
      return Object.assign(await servers.connect(), { close })
    }
    await using running = await startMcpApp(connect)
    running.trainer.chatAnswers.push(said(null, [toolCall('c', 'f')]))
    const accepted = running.init()
    await closing[0].promise
    await vi.advanceTimersByTimeAsync(5000)
    expect((await accepted).status).toBe(202)
    await closing[1].promise
    await vi.advanceTimersByTimeAsync(5000)
    expect(await contents(running.trainer)).toStrictEqual(['hi', null, 'ok', 'ok'])
  })

  it('are created for the rollout, and not shared with others', async () => {
    const rollouts: string[] = []
    const servers = new McpServers((server) => {
      let count = 0
      server.registerTool('count', {}, () => text(String((count += 1))))
    })
    await using running = await startMcpApp(async ({ rolloutId }) => {
      rollouts.push(rolloutId)
      return servers.connect()
    })
    // Both are in the middle of their conversation concurrently.
    const bothAsked = Promise.withResolvers<void>()
    running.trainer.policy = ({ body }: PeerRequest) => {
      const length = (body['messages'] as unknown[]).length
      const next = length < 5 ? said(null, [toolCall('c', 'count')]) : said('done')
      if (running.trainer.chats.length === 2) bothAsked.resolve()
      return async (response) => {
        await bothAsked.promise
        response.end(JSON.stringify(next))
      }
    }
    await running.init({ rollout_id: 'a' })
    await running.init({ rollout_id: 'b' })

    const bodies = await running.trainer.results(2)
    for (const { final_messages: messages } of bodies) {
      expect(messages).toMatchObject([{}, {}, { content: '1' }, {}, { content: '2' }, {}])
    }
    expect(rollouts.toSorted()).toStrictEqual(['a', 'a', 'b', 'b'])
  })
})

describe('an MCP server in a process of its own', () => {
  const notes = fileURLToPath(new URL('./notes-server.ts', import.meta.url))
  const loop = mcpAgentLoop({
    name: 'notes',
    connect: async () => {
      const client = new Client({ name: 'test', version: '1' })
      await client.connect(new StdioClientTransport({ command: process.execPath, args: [notes] }))
      return client
    },
  })
  const remember = (note: string): object => toolCall('c', 'remember', JSON.stringify({ note }))

  it('keeps its state for a rollout, and fails it when it exits, with the conversation so far', async () => {
    await using running = await startApp({ loop })
    running.trainer.chatAnswers.push(
      said(null, [remember('a')]),
      said(null, [remember('b')]),
      said(null, [toolCall('c', 'crash')]),
    )
    await running.init()
    expect(await contents(running.trainer)).toStrictEqual(['hi', null, 'a', null, 'a, b', null])
    expect(running.trainer.completed[0]?.body).toMatchObject({
      status: 'ERROR',
      error_message:
        'The MCP server gave no valid answer to a call of crash: MCP error -32000: Connection closed',
    })
  })
})

describe('an MCP server over HTTP', () => {
  const failed = (reason: string): object => ({
    status: 'ERROR',
    error_message: `The MCP server gave no valid answer to a call of f: ${reason}`,
    final_messages: [{ content: 'hi' }, { content: null }],
  })

  it('fails the rollout when it disconnects during a call', async () => {
    await using server = await new HttpMcpServer((mcp) => {
      mcp.registerTool('f', {}, async () => {
        server.goAway()
        return Promise.withResolvers<never>().promise
      })
    }).start()
    await using running = await startMcpApp(server.connect)
    running.trainer.chatAnswers.push(said(null, [toolCall('c', 'f')]))
    await running.init()
    expect(await running.trainer.results()).toMatchObject([failed('fetch failed')])
  })

  it.each<[string, (response: ServerResponse) => void, string]>([
    [
      'a status',
      (response) => response.writeHead(503).end('busy'),
      'Streamable HTTP error: Error POSTing to endpoint: busy',
    ],
    [
      'a page',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
      'Streamable HTTP error: Unexpected content type: text/html',
    ],
  ])('fails the rollout when it answers a call with %s', async (_, instead, reason) => {
    await using server = await new HttpMcpServer((mcp) => {
      mcp.registerTool('f', {}, () => text('ok'))
    }).start()
    await using running = await startMcpApp(server.connect)
    running.trainer.policy = () => {
      server.instead = instead
      return said(null, [toolCall('c', 'f')])
    }
    await running.init()
    expect(await running.trainer.results()).toMatchObject([failed(reason)])
  })
})
