import { scriptedPolicy } from '@osmosis/controller'

/** Adds the two numbers of the prompt by the tool, and says the result. */
export const policy = scriptedPolicy(({ messages, tools, body }) => {
  const last = messages.at(-1)
  const text = typeof last?.content === 'string' ? last.content : ''
  const usage = { promptTokens: 10, completionTokens: 4 }
  if (last?.role === 'tool') return { content: text, usage }
  const [a, b] = text.match(/\d+/g) ?? []
  if (a === undefined || b === undefined) throw new Error('no two numbers')
  if (tools.length !== 1 || body['max_tokens'] !== 512) throw new Error('not what a trainer sends')
  return { toolCalls: [{ name: 'add', arguments: `{"a": ${a}, "b": ${b}}` }], usage }
})
