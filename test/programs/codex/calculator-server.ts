import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod'

const server = new McpServer({ name: 'calculator', version: '1.0.0' })
server.registerTool(
  'multiply',
  {
    description: 'Multiply two integers.',
    inputSchema: { a: z.number().int(), b: z.number().int() },
  },
  async ({ a, b }) => ({ content: [{ type: 'text', text: String(a * b) }] }),
)
await server.connect(new StdioServerTransport())
