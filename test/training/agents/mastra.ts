import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { rolloutModel, toModelMessages } from '@osmosis/mastra'
import { z } from 'zod'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const mastra: AskForCode = async (ctx, readNote) => {
  const agent = new Agent({
    id: 'door',
    name: 'Door',
    instructions: '',
    model: rolloutModel('door'),
    tools: {
      [toolName]: createTool({
        id: toolName,
        description: toolText,
        inputSchema: z.object({}),
        execute: async () => readNote(),
      }),
    },
  })
  await agent.generate(toModelMessages(ctx.prompt), {
    maxSteps: longestConversation,
    abortSignal: ctx.signal,
  })
}
