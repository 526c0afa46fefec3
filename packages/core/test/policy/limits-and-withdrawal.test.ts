import { RolloutContext, type PolicyCallOptions, type RolloutLimits } from '@osmosis/core'
import { RolloutBudget, type ChatUsage } from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import {
  answerStream,
  chunk,
  eventStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  type TestPolicyEndpoint,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

/** The ways in which agents call a policy. */
const ways: Readonly<
  Record<string, (context: RolloutContext, options: PolicyCallOptions) => Promise<unknown>>
> = {
  'for a whole answer': (context, options) => context.policy('a').complete({ messages }, options),
  'for chunks': async (context, options) => {
    for await (const _ of context.policy('b').stream({ messages }, options));
  },
  'for chunks, until the finish reason': async (context, options) => {
    for await (const { choices } of context.policy('b').stream({ messages }, options)) {
      if (choices[0]?.finish_reason === 'stop') break
    }
  },
  'with a fetch': async (context, { trainable = true }) => {
    const { baseUrl, fetch } = context.policy('c')
    const headers = { 'x-osmosis-trainable': String(trainable) }
    const body = JSON.stringify({ messages })
    const answer = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body })
    if (answer.ok) await answer.text()
    else throw new Error(await answer.text())
  },
}
const wayNames = Object.keys(ways)

interface Limited {
  readonly context: RolloutContext
  readonly signal: AbortSignal
  readonly policy: TestPolicyEndpoint
}

/** A rollout with limits, whose policy uses these tokens in one call after another. */
async function limited(
  rolloutLimits: RolloutLimits,
  used: readonly ChatUsage[],
  stream: boolean,
): Promise<Limited> {
  const policy = await startPolicyEndpoint((response, n, { body }) => {
    const usage = used[n - 1]
    if (body['stream'] === true) {
      // Usage comes with the last chunk that has a choice, and behind it.
      const end = { ...chunk({}, 'stop'), usage }
      const parts = [chunk({ role: 'assistant', content: 'yes' }), end]
      sendStream(response, eventStream(...parts, { ...chunk({}), choices: [], usage }))
    } else {
      const message = { role: 'assistant', content: 'yes' }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      sendJson(response, 200, { id: 'x', object: 'chat.completion', created: 1, choices, usage })
    }
  })
  const ended = new AbortController()
  const budget = new RolloutBudget(rolloutLimits, (reason) => ended.abort(reason))
  const { signal } = ended
  const init = { rolloutId: 'r', chatCompletionsUrl: policy.url, wire: { stream } }
  return { context: new RolloutContext({ ...init, budget, signal }), signal, policy }
}

/** Calls that use many tokens, each in one of the ways. */
const calls = fc.array(
  fc.record({
    way: fc.constantFrom(...wayNames),
    trainable: fc.boolean(),
    prompt: fc.integer({ min: 0, max: 50 }),
    completion: fc.integer({ min: 1, max: 50 }),
  }),
  { minLength: 12, maxLength: 12 },
)

/** Each limit, and what of it a call uses. */
const measured: Readonly<
  Record<string, (prompt: number, completion: number) => readonly [RolloutLimits, used: number]>
> = {
  modelCalls: () => [{ modelCalls: 4 }, 1],
  totalTokens: (prompt, completion) => [{ totalTokens: 200 }, prompt + completion],
  // No sum of whole millionths is the limit, so that it does not matter how they are rounded.
  costUsd: (prompt, completion) => [
    { costUsd: 1500.5 / 1e6, usdPerMillionTokens: { prompt: 3, completion: 11 } },
    (3 * prompt + 11 * completion) / 1e6,
  ],
}

describe('a limit of a rollout', () => {
  it.each(Object.entries(measured))(
    '%s counts all calls of all samples, and no call is sent when it is reached',
    async (name, of) => {
      await fc.assert(
        fc.asyncProperty(calls, fc.boolean(), async (all, stream) => {
          const [limits] = of(0, 0)
          const most = limits[name as 'modelCalls' | 'totalTokens' | 'costUsd'] ?? 0
          // The call after the one that reaches the limit is not made.
          let [sum, expected] = [0, 0]
          for (const { prompt, completion } of all) {
            if (sum >= most) break
            sum += of(prompt, completion)[1]
            expected += 1
          }
          const used = all.map(({ prompt, completion }) => ({
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
          }))
          const { context, signal, policy } = await limited(limits, used, stream)
          const errors: unknown[] = []
          for (const { way, trainable } of all) {
            const error = await ways[way]?.(context, { trainable }).then(
              () => undefined,
              (thrown: unknown) => thrown,
            )
            if (error !== undefined) errors.push(error)
          }
          expect(policy.requests).toHaveLength(expected)
          expect(errors).toHaveLength(all.length - expected)
          if (expected === all.length) return
          expect(signal.reason).toMatchObject({ code: 'limit_reached' })
          expect(context.signal.aborted).toBe(true)
        }),
        { numRuns: 8 },
      )
    },
  )

  it.each(wayNames)('is none where none is set, for calls %s', async (way) => {
    const { context, policy } = await limited({}, [], true)
    for (let n = 0; n < 5; n += 1) await ways[way]?.(context, {})
    expect(policy.requests).toHaveLength(5)
  })
})

const counted = { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 }
const price = { prompt: 1, completion: 1 }
const withoutCounts =
  'cannot be checked: the policy reports no prompt_tokens and completion_tokens as numbers'

it.each<[limits: RolloutLimits, usage: ChatUsage | undefined, missing: string | undefined]>([
  [{ totalTokens: 100 }, undefined, 'totalTokens cannot be checked: the policy reports no usage'],
  [{ costUsd: 1, usdPerMillionTokens: price }, undefined, 'costUsd cannot be checked'],
  [{ costUsd: 1 }, counted, 'costUsd cannot be checked: the policy reports no cost'],
  [{ costUsd: 1, usdPerMillionTokens: price }, counted, undefined],
  [{ costUsd: 1 }, { ...counted, cost: 0.1 }, undefined],
  [{ totalTokens: 100 }, counted, undefined],
  [{ modelCalls: 9 }, undefined, undefined],
  ...[{}, { ...counted, prompt_tokens: null }, { ...counted, completion_tokens: '2' }].flatMap(
    (usage): [RolloutLimits, ChatUsage, string | undefined][] => [
      [{ totalTokens: 100 }, usage as ChatUsage, `totalTokens ${withoutCounts}`],
      [{ costUsd: 1, usdPerMillionTokens: price }, usage as ChatUsage, `costUsd ${withoutCounts}`],
      [{ costUsd: 1 }, { ...usage, cost: 0.1 } as unknown as ChatUsage, undefined],
      [{ modelCalls: 9 }, usage as ChatUsage, undefined],
    ],
  ),
])('%j of a policy that reports %j: %s', async (limits, usage, missing) => {
  for (const stream of [true, false]) {
    const used = usage === undefined ? [] : [usage, usage]
    const { signal, context, policy } = await limited(limits, used, stream)
    await context.policy('main').complete({ messages })
    const reason: unknown = signal.aborted ? signal.reason : undefined
    const said = (reason as Error | undefined)?.message ?? 'it goes on'
    expect(said).toContain(missing ?? 'it goes on')
    const isAnswered = await context
      .policy('main')
      .complete({ messages })
      .then(
        () => true,
        () => false,
      )
    expect(isAnswered).toBe(missing === undefined)
    expect(policy.requests).toHaveLength(missing === undefined ? 2 : 1)
  }
})

/** A rollout that ends when it is withdrawn, as backends end it. Its policy answers the second call with a status. */
async function withdrawable(
  status: number,
  ownRoute: boolean | undefined,
): Promise<Limited & { readonly reasons: readonly unknown[] }> {
  const policy = await startPolicyEndpoint((response, n) => {
    if (n === 2) sendJson(response, status, { error: { message: 'no such rollout' } })
    else sendStream(response, answerStream('yes'))
  })
  const ended = new AbortController()
  const reasons: unknown[] = []
  const context = new RolloutContext({
    rolloutId: 'r',
    chatCompletionsUrl: policy.url,
    wire: { ownRoute },
    signal: ended.signal,
    onWithdrawn: (reason) => {
      reasons.push(reason)
      ended.abort(reason)
    },
  })
  return { context, signal: ended.signal, policy, reasons }
}

describe('a rollout whose own URL', () => {
  it.each(wayNames.flatMap((way) => [404, 410].map((status) => [status, way] as const)))(
    'answers %d is withdrawn: it calls no more, also %s',
    async (status, way) => {
      const { context, signal, policy, reasons } = await withdrawable(status, true)
      await ways[way]?.(context, {})
      const made = ways[way]?.(context, {})
      await expect(made).rejects.toThrow('The trainer withdrew the rollout')
      expect(reasons).toMatchObject([{ code: 'withdrawn', status }])
      expect(signal.reason).toBe(reasons[0])
      // An agent that takes no notice of the error.
      for (const other of wayNames) {
        const again = ways[other]?.(context, { retries: 5, signal: AbortSignal.any([]) })
        await expect(again).rejects.toThrow('The trainer withdrew the rollout')
      }
      expect(policy.requests).toHaveLength(2)
      expect(reasons).toHaveLength(1)
    },
  )

  it.each([400, 401, 403, 405, 409, 422, 451])('answers %d goes on', async (status) => {
    const { context, policy, reasons } = await withdrawable(status, true)
    const client = context.policy('main')
    const outcomes: boolean[] = []
    for (let n = 0; n < 3; n += 1) {
      const isAnswered = await client.complete({ messages }, { retries: 0 }).then(
        () => true,
        () => false,
      )
      outcomes.push(isAnswered)
    }
    expect(outcomes).toEqual([true, false, true])
    expect(policy.requests).toHaveLength(3)
    expect(reasons).toEqual([])
  })
})

it.each([undefined, false])(
  'a rollout whose URL is shared goes on when that is missing (own route: %s)',
  async (ownRoute) => {
    const { context, policy, reasons } = await withdrawable(404, ownRoute)
    await ways['for chunks']?.(context, {})
    await expect(ways['for chunks']?.(context, {})).rejects.toMatchObject({
      code: 'policy_http_error',
      status: 404,
    })
    await ways['for chunks']?.(context, {})
    expect(policy.requests).toHaveLength(3)
    expect(reasons).toEqual([])
  },
)
