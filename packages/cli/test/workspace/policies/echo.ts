import { scriptedPolicy, type PolicyModel } from '@osmosis/controller'

/** Repeats the prompt; changes prompts with a question mark. */
export const policy: PolicyModel = scriptedPolicy(({ messages }) => {
  const said = messages.at(-1)?.content
  if (typeof said !== 'string') throw new Error('expected text')
  return said.endsWith('?') ? 'I do not know' : said.toUpperCase()
})
