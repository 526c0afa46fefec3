import type { ToolInput } from '../tools/function-tool.ts'
import type { McpClient, McpToolResult } from './mcp-client.ts'

/** The longest time a timer of Node.js can wait: 24 days. Milliseconds. */
const longestTimerMs = 2 ** 31 - 1

/** A connection to an MCP server that is open as long as the work it was opened for. */
export class McpConnection {
  readonly #client: McpClient
  #lost = false

  private constructor(client: McpClient) {
    this.#client = client
    const { onclose } = client
    // Clients know no other way of telling.
    // oxlint-disable-next-line unicorn/prefer-add-event-listener
    client.onclose = () => {
      this.#lost = true
      onclose?.call(client)
    }
  }

  /** Opens a connection for `work`, and closes it whatever comes of that. */
  static async during<T>(
    open: () => Promise<McpClient>,
    work: (connection: McpConnection) => Promise<T>,
  ): Promise<T> {
    const client = await open()
    try {
      return await work(new McpConnection(client))
    } finally {
      // A connection that does not end well takes nothing back of what came over it.
      await client.close().catch(() => undefined)
    }
  }

  /** Whether it ended before its work did. */
  get lost(): boolean {
    return this.#lost
  }

  /** The tools of all pages of the server's list. Their schemas stay as they are. */
  async tools(): Promise<ToolInput[]> {
    const tools: ToolInput[] = []
    let cursor: string | undefined
    do {
      const page = await this.#client.listTools({ cursor })
      for (const { name, description, inputSchema } of page.tools) {
        const told = description || `Tool: ${name}`
        tools.push({
          type: 'function',
          function: { name, description: told, parameters: inputSchema },
        })
      }
      cursor = page.nextCursor
    } while (cursor !== undefined)
    return tools
  }

  /** Calls a tool. It may take as long as its rollout: clients have a time limit of their own. */
  async call(
    name: string,
    args: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<McpToolResult> {
    const options = { signal, timeout: longestTimerMs }
    return this.#client.callTool({ name, arguments: args }, undefined, options)
  }
}
