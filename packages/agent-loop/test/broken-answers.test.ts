import type { ChatResult } from '@osmosis/agent-loop'
import { fault, startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { loopOf, startApp } from './running-app.ts'

const answer = { toolCalls: [{ name: 'add', arguments: '{"a": 1.0}' }] }

it.each(['cutAfterBytes', 'endAfterBytes'] as const)(
  'rejects an answer that ends too early (%s), wherever that is',
  async (where) => {
    const outcomes: unknown[] = []
    const cuts = [0, 1, 50, 100, 200, 300]
    await using policy = await startPolicyServer((_, n) =>
      n < cuts.length ? fault.on(answer, { [where]: cuts[n] ?? 0 }) : answer,
    )
    await using running = await startApp({
      loop: loopOf(async (ctx) => {
        for (let n = 0; n <= cuts.length; n += 1) {
          outcomes.push(await ctx.chat(ctx.request.messages).catch((error: unknown) => error))
        }
        return ctx.complete([])
      }),
    })
    await running.init({ server_url: policy.url.replace(/\/v1$/, '') })
    await running.app.drain()

    const [whole, ...broken] = outcomes.toReversed()
    expect((whole as ChatResult).toolCalls[0]?.function.arguments).toBe('{"a": 1.0}')
    const code = where === 'cutAfterBytes' ? 'policy_unreachable' : 'policy_stream_error'
    expect(broken).toMatchObject(cuts.map(() => ({ code })))
    const chats = policy.requests.filter(({ path }) => path.endsWith('/chat/completions'))
    expect(chats).toHaveLength(outcomes.length)
  },
)
