import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { z } from 'zod'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const googleAdk: AskForCode = async (ctx, readNote) => {
  const agent = new LlmAgent({
    name: 'door',
    model: new OsmosisLlm('door'),
    // The ADK tells an agent its name. Other agents are not told theirs, and this one has to learn as they do.
    beforeModelCallback: ({ request }) => {
      delete request.config?.systemInstruction
      return undefined
    },
    tools: [
      new FunctionTool({
        name: toolName,
        description: toolText,
        parameters: z.object({}),
        execute: () => readNote(),
      }),
    ],
  })
  const runner = new InMemoryRunner({ agent })
  const newMessage = toNewMessage(ctx.prompt)
  const runConfig = { maxLlmCalls: longestConversation }
  for await (const _ of runner.runEphemeral({ userId: 'user', newMessage, runConfig }));
}
