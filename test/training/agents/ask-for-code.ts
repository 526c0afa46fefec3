import type { AgentWorkflowContext } from '@osmosis/core'

/**
 * An agent that is asked for the code of a door. Only its tool, which is to call `readNote`, says what the code is.
 * What it resolves with is what its workflow returns.
 */
export type AskForCode = (ctx: AgentWorkflowContext, readNote: () => string) => Promise<unknown>

export const toolName = 'read_note'
export const toolText = 'Reads the note that the code is written on.'
/** Answers of the policy. */
export const longestConversation = 4
