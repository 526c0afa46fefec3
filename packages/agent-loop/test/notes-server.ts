import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod'

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
