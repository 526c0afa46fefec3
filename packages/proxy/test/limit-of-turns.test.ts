import { definePolicyFaults, requireRolloutContext } from '@osmosis/core'
import { createPolicyProxy } from '@osmosis/proxy'
import { describe, expect, it } from 'vitest'

import { blame } from '../../../test/kit/index.ts'
import { post } from './proxied.ts'

// As programs of the guide do it, with what the Claude Agent SDK gives and throws at its limit.

class OutOfTurns extends Error {}

definePolicyFaults((error) => (error instanceof OutOfTurns ? { limit: 'max_turns' } : undefined))

interface Message {
  readonly type: string
  readonly subtype?: string
}

async function* conversationOf(ask: () => Promise<unknown>): AsyncGenerator<Message> {
  await ask()
  yield { type: 'assistant' }
  yield { type: 'result', subtype: 'error_max_turns' }
  throw new Error('Claude Code returned an error result: Reached maximum number of turns (1)')
}

/** A conversation with the policy, through its proxy. */
async function askPolicy(): Promise<void> {
  const policy = requireRolloutContext('The agent').registerPolicySample('main')
  const proxy = await createPolicyProxy(policy)
  const asked = { model: 'policy', max_tokens: 10, messages: [{ role: 'user', content: 'go' }] }
  await (await fetch(`${proxy.anthropicUrl}/v1/messages`, post(asked))).text()
}

async function readToItsEnd(conversation: AsyncIterable<Message>): Promise<void> {
  for await (const message of conversation) {
    if (message.type === 'result' && message.subtype === 'error_max_turns') throw new OutOfTurns()
  }
}

describe('a program at its limit of turns', () => {
  it('is graded where it says that the turns were those of the policy', async () => {
    expect(await blame(['hi'], async () => readToItsEnd(conversationOf(askPolicy)))).toBe(
      'limit_reached: max_turns',
    )
  })

  it('fails where the turns were those of a judge with a key of its own', async () => {
    const judged = async (): Promise<void> => {
      await askPolicy()
      for await (const _ of conversationOf(async () => {}));
    }
    expect(await blame(['hi'], judged)).toBe('failure')
  })
})
