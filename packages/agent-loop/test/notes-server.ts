import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

// Clients of MCP do not give a server the environment, which names the folder of compiled code.
enableCompileCache(
  fileURLToPath(new URL('../../../node_modules/.cache/node-compile', import.meta.url)),
)
const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js')
const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js')
const { z } = await import('zod')

/** An MCP server over stdio that stores notes, and can be made to crash. */
const server = new McpServer({ name: 'notes', version: '1.0.0' })
const notes: string[] = []

server.registerTool(
  'remember',
  { description: 'Remember a note', inputSchema: { note: z.string() } },
  ({ note }) => {
    notes.push(note)
    return { content: [{ type: 'text', text: notes.join(', ') }] }
  },
)
server.registerTool('crash', {}, () => process.exit(1))

await server.connect(new StdioServerTransport())
