import type { ChatCompletion, ChatMessage } from '@osmosis/core/policy'
import { withTorch } from '@osmosis/testing/kit'
import { expect } from 'vitest'

import type { LocalLearner } from '../src/index.ts'
import { tableLearner } from './reference/table-learner.ts'

const { it } = withTorch()

interface Asked {
  readonly rolloutId: string
  readonly first: ChatCompletion
}

async function ask(
  { policy }: LocalLearner,
  rolloutId: string,
  messages: readonly ChatMessage[],
  more: object = {},
): Promise<ChatCompletion> {
  const body = { messages, max_tokens: 1, logprobs: true, return_token_ids: true, ...more }
  const { signal } = new AbortController()
  const answer = await policy.respond({ rolloutId, sampleId: 's', body, headers: {}, signal })
  return (await answer.json()) as ChatCompletion
}

it('conversations of two rollouts that say the same continue with their own tokens', async () => {
  const learner = await tableLearner()
  const question: ChatMessage = { role: 'user', content: 'a' }
  // Two tokens of the policy are the same letter.
  const byText = new Map<string, Map<number, Asked>>()
  let twins: readonly Asked[] = []
  for (let seed = 0; twins.length < 2; seed += 1) {
    const rolloutId = `rollout-${seed}`
    const first = await ask(learner, rolloutId, [question], { seed })
    const { message, token_ids: ids } = first.choices[0] ?? {}
    const same = byText.get(`${message?.content}`) ?? new Map<number, Asked>()
    byText.set(`${message?.content}`, same.set((ids as number[])[0] ?? 0, { rolloutId, first }))
    twins = [...same.values()]
  }
  for (const { rolloutId, first } of twins) {
    const choice = first.choices[0]
    const said: ChatMessage = { role: 'assistant', content: choice?.message.content ?? '' }
    const second = await ask(learner, rolloutId, [question, said, { role: 'user', content: 'b' }])
    const prompt = first['prompt_token_ids'] as number[]
    const before = [...prompt, ...(choice?.token_ids ?? [])]
    expect((second['prompt_token_ids'] as number[]).slice(0, before.length)).toEqual(before)
  }
})
