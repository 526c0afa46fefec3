// A scripted policy, which replaces a model and needs no key: npx osmosis eval run configs/eval/__name__.toml --policy policies/__name__.ts
import { scriptedPolicy } from '@osmosis/controller'

export const policy = scriptedPolicy(({ turn }) => {
  // What a model would answer. A tool call is { toolCalls: [{ name: 'search', arguments: { query: 'rulers' } }] }.
  return `Answer ${turn + 1} of the scripted policy.`
})
