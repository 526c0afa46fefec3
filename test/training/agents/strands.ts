import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const strands: AskForCode = async (ctx, readNote) => {
  const agent = new OsmosisStrandsAgent({
    name: 'door',
    model: new OsmosisRolloutModel(),
    tools: [
      tool({
        name: toolName,
        description: toolText,
        inputSchema: z.object({}),
        callback: () => readNote(),
      }),
    ],
    messages: ctx.prompt,
  })
  await agent.invoke(undefined, {
    limits: { turns: longestConversation },
    cancelSignal: ctx.signal,
  })
}
