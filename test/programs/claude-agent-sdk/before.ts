import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk'
import { z } from 'zod'

const multiply = tool(
  'multiply',
  'Multiply two integers.',
  { a: z.number().int(), b: z.number().int() },
  async ({ a, b }) => ({ content: [{ type: 'text', text: String(a * b) }] }),
)

const conversation = query({
  prompt: 'What is 12 times 34?',
  options: {
    model: 'claude-sonnet-5',
    systemPrompt: 'Use the multiply tool when arithmetic is required.',
    tools: [],
    mcpServers: { calculator: createSdkMcpServer({ name: 'calculator', tools: [multiply] }) },
    permissionMode: 'bypassPermissions',
    allowDangerouslySkipPermissions: true,
    maxTurns: 8,
  },
})
for await (const message of conversation) {
  if (message.type === 'result' && message.subtype === 'success') console.log(message.result)
}
