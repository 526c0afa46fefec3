/** One agent in one framework, either before its migration or after it. */
export interface AgentRuns {
  /** Runs the agent once and resolves with what it said last. */
  generate(): Promise<string>
  /** The same, with streamed answers. */
  stream(): Promise<string>
}

export const instructions = 'Use the multiply tool when arithmetic is required. '.repeat(10)
export const question = 'What is 12 times 34? '.repeat(20)
export const toolText = 'Multiply two integers.'
/** Tokens; sent with every request. */
export const maxTokens = 4096
