// The tool of the agent as an MCP server, which Codex starts for each rollout.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

const server = new McpServer({ name: 'shop', version: '1.0.0' })
server.registerTool(
  'look_up_price',
  {
    description: 'The price of one piece of a product, in euros.',
    inputSchema: { product: z.string() },
  },
  async ({ product }) => ({ content: [{ type: 'text', text: lookUpPrice(product) }] }),
)
await server.connect(new StdioServerTransport())
