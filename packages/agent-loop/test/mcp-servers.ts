import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { mcpAgentLoop, type McpAgentLoopOptions, type McpClient } from '@osmosis/agent-loop'

import { startApp, type RunningApp, type RunningAppOptions } from './running-app.ts'

/** An app whose loop has the tools of these servers. */
export async function startMcpApp(
  connect: McpAgentLoopOptions['connect'],
  {
    maxConcurrentTools,
    ...options
  }: RunningAppOptions & Pick<McpAgentLoopOptions, 'maxConcurrentTools'> = {},
): Promise<RunningApp> {
  return startApp({ ...options, loop: mcpAgentLoop({ name: 'mcp', connect, maxConcurrentTools }) })
}

/** MCP servers in this process: each connection gets one of its own, and both ends are counted. */
export class McpServers {
  opened = 0
  closed = 0
  readonly #define: (server: McpServer) => void

  /** @param define - registers the tools of a server */
  constructor(define: (server: McpServer) => void) {
    this.#define = define
  }

  readonly connect = async (): Promise<Client> => {
    const server = new McpServer({ name: 'test', version: '1' }, { capabilities: { tools: {} } })
    this.#define(server)
    // oxlint-disable-next-line unicorn/prefer-add-event-listener
    server.server.onclose = () => {
      this.closed += 1
    }
    const [near, far] = InMemoryTransport.createLinkedPair()
    await server.connect(far)
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(near)
    this.opened += 1
    return client
  }
}

/** An MCP server over HTTP without sessions, which can be closed. */
export class HttpMcpServer implements AsyncDisposable {
  /** Answers requests instead of the server. */
  instead: ((response: ServerResponse) => void) | undefined
  readonly #define: (server: McpServer) => void
  readonly #http = createServer((request, response) => {
    if (this.instead) this.instead(response)
    else void this.#answer(request, response)
  })

  /** @param define - registers the tools of a server */
  constructor(define: (server: McpServer) => void) {
    this.#define = define
  }

  async start(): Promise<this> {
    this.#http.listen(0, '127.0.0.1')
    await once(this.#http, 'listening')
    return this
  }

  readonly connect = async (): Promise<McpClient> => {
    const { port } = this.#http.address() as AddressInfo
    const client = new Client({ name: 'test', version: '1' })
    const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/`))
    await client.connect(transport)
    return client
  }

  /** Closes the server and whatever is open to it. */
  goAway(): void {
    this.#http.close()
    this.#http.closeAllConnections()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#http.listening) return
    this.goAway()
    await once(this.#http, 'close')
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const server = new McpServer({ name: 'test', version: '1' }, { capabilities: { tools: {} } })
    this.#define(server)
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    await server.connect(transport)
    await transport.handleRequest(request, response)
  }
}

/** The result of a tool with this text. */
export function text(...texts: string[]): { content: { type: 'text'; text: string }[] } {
  return { content: texts.map((one) => ({ type: 'text', text: one })) }
}
