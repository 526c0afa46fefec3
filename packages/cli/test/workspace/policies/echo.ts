import { scriptedPolicy, type PolicyModel } from '@osmosis/controller'

/** Says what it is told; what it is told with a question mark it gets wrong. */
export const policy: PolicyModel = scriptedPolicy(({ messages }) => {
  const said = messages.at(-1)?.content
  if (typeof said !== 'string') throw new Error('expected text')
  return said.endsWith('?') ? 'I do not know' : said.toUpperCase()
})
