import { OsmosisError } from '@osmosis/core'

import type { ToolInput } from '../tools/function-tool.ts'
import type { McpClient, McpToolResult } from './mcp-client.ts'

/** The longest time a timer of Node.js can wait: 24 days. Milliseconds. */
const longestTimerMs = 2 ** 31 - 1

/** How long a result waits for the end of the connection it came over. Milliseconds. */
const longestCloseMs = 5000

/** A connection to an MCP server that is open as long as the work it was opened for. */
export class McpConnection {
  readonly #client: McpClient

  private constructor(client: McpClient) {
    this.#client = client
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
      await close(client)
    }
  }

  /**
   * The tools of all pages of the server's list. Their schemas stay as they are.
   *
   * @throws OsmosisError with code `protocol_error` when the list leads back to a page it had
   */
  async tools(): Promise<ToolInput[]> {
    const tools: ToolInput[] = []
    const asked = new Set<string | undefined>()
    let cursor: string | undefined
    do {
      if (asked.has(cursor)) {
        const said = `The MCP server's list of tools has no end: nextCursor '${cursor}' came twice`
        throw new OsmosisError('protocol_error', `${said}; each page must lead to a new one.`)
      }
      asked.add(cursor)
      const page = await this.#client.listTools({ cursor })
      for (const { name, description, inputSchema } of page.tools) {
        const text = description || `Tool: ${name}`
        tools.push({
          type: 'function',
          function: { name, description: text, parameters: inputSchema },
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

/** Never rejects: a connection that does not end well takes nothing back of what came over it. */
async function close(client: McpClient): Promise<void> {
  const { promise: enough, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, longestCloseMs).unref()
  // A function of its own, because a client may also throw right away.
  const closed = (async () => client.close())().catch(() => undefined)
  await Promise.race([closed, enough])
  clearTimeout(timer)
}
