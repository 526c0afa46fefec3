import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'

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

/** What a tool gives that says `text`. */
export function text(...texts: string[]): { content: { type: 'text'; text: string }[] } {
  return { content: texts.map((one) => ({ type: 'text', text: one })) }
}
