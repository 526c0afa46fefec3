import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { isStepCount, tool } from 'ai'
import { z } from 'zod'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const aiSdk: AskForCode = async (ctx, readNote) => {
  const agent = new OsmosisToolLoopAgent({
    id: 'door',
    model: rolloutModel(),
    tools: {
      [toolName]: tool({
        description: toolText,
        inputSchema: z.object({}),
        execute: () => readNote(),
      }),
    },
    stopWhen: isStepCount(longestConversation),
  })
  await agent.generate({ messages: toModelMessages(ctx.prompt), abortSignal: ctx.signal })
}
