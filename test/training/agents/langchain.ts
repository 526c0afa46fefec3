import { GraphRecursionError } from '@langchain/langgraph'
import { OsmosisChatModel } from '@osmosis/langchain'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

import { type AskForCode, longestConversation, toolName, toolText } from './ask-for-code.ts'

export const langchain: AskForCode = async (ctx, readNote) => {
  const agent = createAgent({
    model: new OsmosisChatModel('door'),
    tools: [
      tool(() => readNote(), { name: toolName, description: toolText, schema: z.object({}) }),
    ],
  })
  // An answer of the policy is a step, and the results of its calls are one.
  const recursionLimit = 2 * longestConversation
  try {
    await agent.invoke({ messages: ctx.prompt }, { signal: ctx.signal, recursionLimit })
  } catch (error) {
    // An agent that only ever reads the note has answered wrong, and did not fail.
    if (!(error instanceof GraphRecursionError)) throw error
  }
}
