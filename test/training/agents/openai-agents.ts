import { MaxTurnsExceededError, run, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const openaiAgents: AskForCode = async (ctx, readNote) => {
  const agent = new OsmosisAgent({
    name: 'door',
    model: new OsmosisRolloutModel(),
    tools: [
      tool({
        name: toolName,
        description: toolText,
        parameters: z.object({}),
        execute: () => readNote(),
      }),
    ],
  })
  const session = new OsmosisMemorySession({ name: 'door' })
  try {
    await run(agent, ctx.prompt, { session, maxTurns: longestConversation, signal: ctx.signal })
  } catch (error) {
    // An agent that only ever reads the note has answered wrong, and did not fail.
    if (!(error instanceof MaxTurnsExceededError)) throw error
  }
}
