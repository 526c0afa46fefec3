import type { AgentWorkflowContext } from '@osmosis/core'

/**
 * An agent that has to find the code of a door. Only its tool, which calls `readNote`, returns the code.
 * It resolves with what its workflow returns.
 */
export type AskForCode = (ctx: AgentWorkflowContext, readNote: () => string) => Promise<unknown>

export const toolName = 'read_note'
export const toolText = 'Reads the note that the code is written on.'
/** Answers of the policy. */
export const longestConversation = 4
