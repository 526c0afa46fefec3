import { isDeepStrictEqual } from 'node:util'

import type { PolicyCall } from '@osmosis/core'
import { expect } from 'vitest'

import type { FakeModel, TrainedCall } from '../kit/trainers/index.ts'
import type { GradedRollout } from './door-rollouts.ts'

/** An answer of the policy, as it is to be recorded. */
export type SaidCall = Pick<TrainedCall, 'promptIds' | 'ids' | 'logprobs'>

/** The part of an answer that a trainer has to record. */
export function saidIn(answer: Awaited<ReturnType<FakeModel>>): SaidCall {
  const [choice] = answer.choices
  const promptIds = answer.prompt_token_ids ?? []
  return { promptIds, ids: choice?.token_ids ?? [], logprobs: logprobsOf(choice?.logprobs ?? null) }
}

/** The outcomes of the rollouts of an iteration, by rollout id. */
interface Recorded {
  /** At the rollout server. */
  readonly graded: ReadonlyMap<string, GradedRollout>
  /** At the trainer. */
  readonly trained: readonly TrainedCall[]
  /** What the trainer gives rollouts without a reward; null where it leaves them out. */
  readonly failuresAs: number | null
}

/** Fails unless server and trainer have recorded what the policy said, with the rewards that were given. */
export function expectWhatWasSaid(
  said: ReadonlyMap<string, readonly SaidCall[]>,
  { graded, trained, failuresAs }: Recorded,
): void {
  const logged = [...graded].map(([id, { calls }]) => [id, calls.map(loggedIn)])
  const saidByGraded = [...graded.keys()].map((id) => [id, said.get(id)])
  const [loggedElse, saidElse] = differing(logged, saidByGraded)
  expect(loggedElse, 'the calls of samples are those that the policy answered').toEqual(saidElse)

  const expected = [...said].flatMap(([rolloutId, calls]) => {
    const reward = graded.get(rolloutId)?.reward ?? failuresAs
    return reward === null ? [] : calls.map((call) => ({ rolloutId, reward, ...call }))
  })
  const rewarded = trained.map(({ rolloutId, reward, promptIds, ids, logprobs }) => ({
    rolloutId,
    reward,
    promptIds,
    ids,
    logprobs,
  }))
  const [trainedElse, rewardedElse] = differing(inOrder(rewarded), inOrder(expected))
  expect(trainedElse, 'what is trained is what the policy said, with the reward it got').toEqual(
    rewardedElse,
  )
  const codes = trained.map(({ group, rolloutId }) => `${group} ${graded.get(rolloutId)?.code}`)
  const groups = new Set(trained.map(({ group }) => group))
  if (failuresAs === null) {
    expect(new Set(codes).size, 'a group has one code').toBe(groups.size)
  }
  const prompts = [...said.values()].flatMap((calls) =>
    calls.map(({ promptIds, ids }, at) => {
      const known = [...promptIds, ...ids]
      return { known, started: (calls[at + 1]?.promptIds ?? known).slice(0, known.length) }
    }),
  )
  const [startedElse, knownElse] = differing(
    prompts.map(({ started }) => started),
    prompts.map(({ known }) => known),
  )
  expect(startedElse, 'a prompt continues with the words of the policy').toEqual(knownElse)
}

/** The differing items, because `expect` is slow for thousands of token ids. */
function differing(
  actual: readonly unknown[],
  expected: readonly unknown[],
): [actual: unknown[], expected: unknown[]] {
  const places = [...(actual.length > expected.length ? actual : expected).keys()]
  const others = places.filter((at) => !isDeepStrictEqual(actual[at], expected[at]))
  return [others.map((at) => actual[at]), others.map((at) => expected[at])]
}

function loggedIn({ promptTokenIds, completionTokenIds, logprobs }: PolicyCall): SaidCall {
  return {
    promptIds: promptTokenIds ?? [],
    ids: completionTokenIds ?? [],
    logprobs: logprobsOf(logprobs),
  }
}

/** The logprob of each token of an answer. */
function logprobsOf(logprobs: PolicyCall['logprobs']): number[] {
  const entries = (logprobs?.content ?? []) as { logprob: number }[]
  return entries.map(({ logprob }) => logprob)
}

function inOrder<Call extends { rolloutId: string; promptIds: readonly number[] }>(
  calls: readonly Call[],
): Call[] {
  return calls.toSorted(
    (a, b) => a.rolloutId.localeCompare(b.rolloutId) || a.promptIds.length - b.promptIds.length,
  )
}
