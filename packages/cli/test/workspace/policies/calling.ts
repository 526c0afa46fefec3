import { scriptedPolicy, type PolicyModel } from '@osmosis/controller'

/** Looks the answer up, and says it. */
export const policy: PolicyModel = scriptedPolicy(({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? { content: 'It is 42.' }
    : { toolCalls: [{ name: 'look_up', arguments: '{"q": "one"}' }] },
)
