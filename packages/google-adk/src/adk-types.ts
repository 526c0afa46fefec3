import type { LlmRequest } from '@google/adk'

// Derived, because users install the ADK alone, and not the package that has these types.

/** One turn of a conversation in Gemini's form. */
export type AdkContent = LlmRequest['contents'][number]

/** A piece of a turn: text, thought, call, response, file. */
export type AdkPart = NonNullable<AdkContent['parts']>[number]

/** Settings of a model call in Gemini's form. */
export type AdkConfig = NonNullable<LlmRequest['config']>

/** Where a part of a user's message has the role that it had in the prompt of a row. */
export const roleKey = 'osmosis.role'
