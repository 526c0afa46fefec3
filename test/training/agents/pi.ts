import { Agent } from '@earendil-works/pi-agent-core'
import { rolloutStreamFn, toAgentMessages } from '@osmosis/pi'
import { Type } from 'typebox'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const pi: AskForCode = async (ctx, readNote) => {
  let turns = 0
  const agent = new Agent({
    initialState: {
      tools: [
        {
          name: toolName,
          label: toolName,
          description: toolText,
          parameters: Type.Object({}),
          execute: async () => ({ content: [{ type: 'text', text: readNote() }], details: {} }),
        },
      ],
    },
    streamFn: rolloutStreamFn('door'),
    finishTurn: () => ((turns += 1) < longestConversation ? undefined : { action: 'end' }),
  })
  ctx.signal.addEventListener('abort', () => agent.abort())
  await agent.prompt(toAgentMessages(ctx.prompt))
}
