/** The text of one content block of any framework, '' for blocks of other kinds. */
function blockText(block: unknown): string {
  if (typeof block !== 'object' || block === null) return ''
  const { type, text } = block as { type?: unknown; text?: unknown }
  // OpenAI and AI SDK mark text blocks by type, Strands (Bedrock) by the key alone. Thinking is
  // text as well, but not what the assistant said.
  const isText = type === undefined || type === 'text' || type === 'output_text'
  return isText && typeof text === 'string' ? text : ''
}

/**
 * What the assistant said last, in a sample of any framework: strings, chat completions parts,
 * Responses items, AI SDK and Strands blocks. Turns that hold no text (tool calls only) are
 * skipped; '' when the assistant never said anything.
 */
export function lastAssistantText(sample: { readonly messages: readonly unknown[] }): string {
  for (const message of sample.messages.toReversed()) {
    if (typeof message !== 'object' || message === null) continue
    const { role, content } = message as { role?: unknown; content?: unknown }
    if (role !== 'assistant') continue
    const text = Array.isArray(content) ? content.map(blockText).join('') : content
    if (typeof text === 'string' && text !== '') return text
  }
  return ''
}
