import { createPolicyEndpoint } from '@osmosis/controller'
import { RolloutContext } from '@osmosis/core'
import type { ChatCompletion, ChatCompletionRequest } from '@osmosis/core/policy'
import { learn, TinyPolicy, type SavedTinyPolicy, type TrainedCall } from '../trainers/index.ts'
import { describe, expect, it } from 'vitest'

const tools = [{ type: 'function', function: { name: 'read_note', parameters: {} } }]
const question: ChatCompletionRequest = {
  messages: [{ role: 'user', content: 'What is the code of the door?' }],
  tools,
}
const rollouts = Array.from({ length: 40 }, (_, n) => `rollout-${n}`)

function answers(policy: TinyPolicy, ids: readonly string[] = rollouts): ChatCompletion[] {
  return ids.map((id) => policy.complete(question, id))
}

function said({ choices }: ChatCompletion): string {
  const message = choices[0]?.message
  return `${message?.content ?? ''}${message?.tool_calls?.[0]?.function.name ?? ''}`
}

function trained(answer: ChatCompletion, rest: Partial<TrainedCall> = {}): TrainedCall {
  const [choice] = answer.choices
  const logprobs = (choice?.logprobs?.content ?? []) as { logprob: number }[]
  return {
    rolloutId: answer.id,
    group: 'one',
    reward: said(answer) === 'read_note' ? 1 : 0,
    promptIds: answer.prompt_token_ids ?? [],
    ids: choice?.token_ids ?? [],
    logprobs: logprobs.map(({ logprob }) => logprob),
    ...rest,
  }
}

describe('TinyPolicy', () => {
  it('says two letters, or calls the first tool of the request', () => {
    const all = new Set(answers(new TinyPolicy({ seed: 1 })).map(said))
    expect([...all].every((text) => /^([a-d]{2}|[a-d]?read_note)$/.test(text))).toBe(true)
    expect(all.size).toBeGreaterThan(5)
  })

  it('gives a rollout the same answers in any order of requests', () => {
    const forwards = answers(new TinyPolicy({ seed: 1 }))
    const backwards = answers(new TinyPolicy({ seed: 1 }), rollouts.toReversed())
    expect(backwards.toReversed()).toEqual(forwards)
    expect(answers(new TinyPolicy({ seed: 2 }))).not.toEqual(forwards)
  })

  it('answers a repeated request differently, with another id', () => {
    const policy = new TinyPolicy({ seed: 1 })
    const again = answers(
      policy,
      Array.from(rollouts, () => 'rollout-1'),
    )
    expect(new Set(again.map(({ id }) => id)).size).toBe(rollouts.length)
    expect(new Set(again.map(said)).size).toBeGreaterThan(5)
  })

  it('encodes its own answers as the token ids that it sampled', () => {
    for (const answer of answers(new TinyPolicy({ seed: 1 }))) {
      const message = answer.choices[0]?.message ?? { role: 'assistant' }
      const next = new TinyPolicy({ seed: 1 }).complete(
        { ...question, messages: [...question.messages, message] },
        'next',
      )
      const first = trained(answer)
      const started = [...first.promptIds, ...first.ids]
      expect(next.prompt_token_ids?.slice(0, started.length)).toEqual(started)
    }
  })

  it('streams the answers that it gives without a stream', async () => {
    await using endpoint = await createPolicyEndpoint({ policy: new TinyPolicy({ seed: 1 }) })
    const streamed = rollouts.map(async (rolloutId) => {
      const { llmApiKey: apiKey, chatCompletionsUrl } = endpoint.admit(rolloutId)
      const rollout = new RolloutContext({ rolloutId, chatCompletionsUrl, apiKey })
      return rollout.policy('main').complete(question)
    })
    expect(await Promise.all(streamed)).toEqual(answers(new TinyPolicy({ seed: 1 })))
  })

  it('gives the same answers after it was saved and loaded', () => {
    const policy = new TinyPolicy({ seed: 1 })
    learn(
      policy,
      answers(policy).map((answer) => trained(answer)),
    )
    const saved = JSON.stringify(policy)
    expect(answers(TinyPolicy.from(JSON.parse(saved) as SavedTinyPolicy))).toEqual(answers(policy))
    expect(() => TinyPolicy.from({ seed: 1, version: 0, weights: [1] })).toThrow(/720 weights/)
  })

  it('throws for a request without a tool', () => {
    const policy = new TinyPolicy({ seed: 1 })
    const { messages } = question
    expect(() => rollouts.map((id) => policy.complete({ messages }, id))).toThrow(/has no tool/)
  })
})

describe('learn', () => {
  it('makes rewarded answers more likely', () => {
    const policy = new TinyPolicy({ seed: 1 })
    const before = answers(policy)
    for (let n = 0; n < 5; n += 1) {
      const batch = answers(policy).map((answer) => trained(answer))
      learn(policy, batch)
    }
    const calls = (all: ChatCompletion[]): number =>
      all.filter((answer) => said(answer) === 'read_note').length
    expect(policy.version).toBe(5)
    expect(calls(answers(policy))).toBeGreaterThan(2 * calls(before))
  })

  it('learns the same from the same calls in any order', () => {
    const policies = [new TinyPolicy({ seed: 1 }), new TinyPolicy({ seed: 1 })] as const
    const calls = answers(new TinyPolicy({ seed: 1 })).map((answer) => trained(answer))
    learn(policies[0], calls)
    learn(policies[1], calls.toReversed())
    expect(answers(policies[1])).toEqual(answers(policies[0]))
  })

  it('learns nothing from groups with equal rewards', () => {
    const policies = [new TinyPolicy({ seed: 1 }), new TinyPolicy({ seed: 1 })] as const
    const calls = answers(new TinyPolicy({ seed: 1 })).map((answer) => trained(answer))
    learn(
      policies[0],
      calls.map((call) => ({ ...call, group: `${call.reward}` })),
    )
    learn(policies[1], calls, { learningRate: 0 })
    expect(answers(policies[0])).toEqual(answers(policies[1]))
  })

  it('counts a rollout once in its group, however many calls it made', () => {
    const policies = [new TinyPolicy({ seed: 1 }), new TinyPolicy({ seed: 1 })] as const
    const [good, middling, bad] = answers(new TinyPolicy({ seed: 1 })).map((answer, n) =>
      trained(answer, { reward: 1 - n / 2 }),
    )
    if (!good || !middling || !bad) throw new Error('three answers are needed')
    // As good as its group on average: it gives no training signal, and dilutes that of the others.
    const once = [good, middling, bad]
    const thrice = [good, middling, middling, middling, bad]
    learn(policies[0], once, { learningRate: tokens(once) })
    learn(policies[1], thrice, { learningRate: tokens(thrice) })
    expect(answers(policies[1]).map(said)).toEqual(answers(policies[0]).map(said))
  })
})

function tokens(calls: readonly TrainedCall[]): number {
  return calls.reduce((sum, call) => sum + call.ids.length, 0)
}
