import { type PolicyClient, requireRolloutContext } from '@osmosis/core'
import { fault, type Reply, startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { execute } from '../../../../test/kit/index.ts'

type Message = Parameters<PolicyClient['complete']>[0]['messages'][number]

const user = (content: string): Message => ({ role: 'user', content })
const said = (content: string): Message => ({ role: 'assistant', content })
const refused = fault.status(400)

/** What a framework does whose code catches every error. */
async function ask(
  policy: PolicyClient,
  messages: readonly Message[],
  options: Parameters<PolicyClient['complete']>[1] = {},
): Promise<void> {
  await policy.complete({ messages: [...messages] }, options).catch(() => {})
}

interface Case {
  readonly what: string
  readonly replies: readonly Reply[]
  readonly run: (policy: PolicyClient) => Promise<void>
  readonly fails: boolean
}

const cases: readonly Case[] = [
  {
    what: 'a failed call, after which nothing is asked',
    replies: [refused],
    run: async (policy) => ask(policy, [user('go')]),
    fails: true,
  },
  {
    what: 'a failed call in a later turn',
    replies: ['one', refused],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('go'), said('one'), user('more')])
    },
    fails: true,
  },
  {
    what: 'the same request again',
    replies: [refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('go')])
    },
    fails: false,
  },
  {
    what: 'a request that goes on where the failed one was',
    replies: [refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('go'), user('please')], { agent: 'another' })
    },
    fails: false,
  },
  {
    what: 'a shorter history of the same conversation',
    replies: ['one', 'two', refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('a')])
      await ask(policy, [user('a'), said('one'), user('b')])
      await ask(policy, [user('a'), said('one'), user('b'), said('two'), user('c')])
      await ask(policy, [user('b'), said('two'), user('c')])
    },
    fails: false,
  },
  {
    what: 'a summary of the conversation',
    replies: ['one', refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('a')])
      await ask(policy, [user('a'), said('one'), user('b')])
      await ask(policy, [user('a was asked, then b')])
    },
    fails: false,
  },
  {
    what: 'the next turn of a conversation whose tool asked in vain',
    replies: ['asking', refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('help')])
      await ask(policy, [user('go'), said('asking'), user('the tool failed')])
    },
    fails: true,
  },
  {
    what: 'a new conversation of another agent',
    replies: [refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('go')], { agent: 'first' })
      await ask(policy, [user('help')], { agent: 'second' })
    },
    fails: true,
  },
  {
    what: 'a request that no policy can be asked',
    replies: ['one'],
    run: async (policy) => {
      await ask(policy, [user('go')])
      const messages = [user('go'), said('one'), user('more')]
      await policy.complete({ messages, n: 2 }).catch(() => {})
    },
    fails: true,
  },
  {
    what: 'a failed call that is no training data',
    replies: ['one', refused],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('a title')], { trainable: false })
    },
    fails: false,
  },
  {
    what: 'an answer that is no training data',
    replies: [refused, 'fine'],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('go')], { trainable: false })
    },
    fails: true,
  },
  {
    what: 'a call that its caller aborted',
    replies: ['one', 'two'],
    run: async (policy) => {
      await ask(policy, [user('go')])
      await ask(policy, [user('go'), said('one'), user('b')], { signal: AbortSignal.abort() })
    },
    fails: false,
  },
]

test.each(cases)('$what: the rollout fails: $fails', async ({ replies, run, fails }) => {
  await using server = await startPolicyServer([...replies])
  const { workflow } = await execute(server, async () =>
    run(requireRolloutContext('The test').registerPolicySample('main')),
  )
  expect(workflow.status).toBe(fails ? 'failure' : 'success')
  expect(server.requests.length).toBeLessThanOrEqual(replies.length)
})

test('the failure says whose call failed, and that the workflow went on', async () => {
  await using server = await startPolicyServer([refused])
  const { workflow } = await execute(server, async () =>
    ask(requireRolloutContext('The test').registerPolicySample('solver'), [user('go')]),
  )
  expect(workflow.failure?.message).toMatch(
    /answered 400: .* The workflow returned all the same, but the agent of the sample "solver" has not recovered from this failed call\.$/,
  )
})

test('an answer to a call that began before the failure does not make up for it', async () => {
  await using server = await startPolicyServer([fault.on('late', { delayMs: 200 }), refused])
  const { workflow } = await execute(server, async () => {
    const policy = requireRolloutContext('The test').registerPolicySample('main')
    const first = ask(policy, [user('go')])
    await server.waitForRequest(0)
    await ask(policy, [user('go')])
    await first
  })
  expect(workflow.failure).toMatchObject({ category: 'http_error', cause: { status: 400 } })
})
