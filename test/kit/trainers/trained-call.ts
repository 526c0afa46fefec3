import type { ChatCompletion, ChatCompletionRequest } from '@osmosis/core/policy'

/**
 * One row that a trainer would learn from: an answer of the policy, and what became of its rollout. It is
 * what a trainer has *recorded*, so a test that looks at it sees what training would see.
 */
export interface TrainedCall {
  readonly rolloutId: string
  /** Attempts of one group were asked the same, and are compared with one another. */
  readonly group: string
  /** What the trainer would train with, also where it made the number up. */
  readonly reward: number
  /** The prompt as the policy read it. */
  readonly promptIds: readonly number[]
  /** The answer as the policy sampled it. */
  readonly ids: readonly number[]
  /** One for each of `ids`: how likely it was to the policy that sampled it. */
  readonly logprobs: readonly number[]
}

/**
 * The model behind a fake trainer. Its complete answers carry `prompt_token_ids`, and `token_ids` and
 * `logprobs.content` in their only choice, as vLLM's do on request.
 *
 * `rolloutId` is that of the calling rollout: from its URL, else the `x-rollout-id` header, else empty. A model
 * whose answers depend on it is independent of the order of requests.
 */
export type FakeModel = (
  body: ChatCompletionRequest,
  rolloutId: string,
) => ChatCompletion | Promise<ChatCompletion>

/**
 * What is to be trained of an answer.
 *
 * @throws TypeError when it lacks its token ids, or has not one logprob for each.
 */
export function recordedTokens(
  answer: ChatCompletion,
): Pick<TrainedCall, 'promptIds' | 'ids' | 'logprobs'> {
  const [choice] = answer.choices
  const promptIds = answer.prompt_token_ids
  const ids = choice?.token_ids
  const logprobs = (choice?.logprobs?.content ?? []).map(logprobOf)
  if (!promptIds || !ids || logprobs.length !== ids.length) {
    throw new TypeError(
      `answer ${answer.id} cannot be trained on: it needs prompt_token_ids, token_ids and a logprob for each of them`,
    )
  }
  return { promptIds, ids, logprobs }
}

function logprobOf(entry: unknown): number {
  if (typeof entry === 'object' && entry !== null && 'logprob' in entry)
    return Number(entry.logprob)
  throw new TypeError('an entry of logprobs.content has no logprob')
}
