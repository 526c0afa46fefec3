import type { PolicyCall } from '@osmosis/core'
import type { FakeModel, TrainedCall } from '@osmosis/testing'
import { expect } from 'vitest'

import type { GradedRollout } from './door-rollouts.ts'

/** An answer of the policy, as it is to be recorded. */
export type SaidCall = Pick<TrainedCall, 'promptIds' | 'ids' | 'logprobs'>

/** What a trainer has to record of an answer. */
export function saidIn(answer: Awaited<ReturnType<FakeModel>>): SaidCall {
  const [choice] = answer.choices
  const promptIds = answer.prompt_token_ids ?? []
  return { promptIds, ids: choice?.token_ids ?? [], logprobs: logprobsOf(choice?.logprobs ?? null) }
}

/** What came of the rollouts of an iteration, by their names. */
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
  expect(logged, 'the calls of samples are those that the policy answered').toEqual(saidByGraded)

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
  expect(
    inOrder(rewarded),
    'what is trained is what the policy said, with the reward it got',
  ).toEqual(inOrder(expected))
  const asked = trained.map(({ group, rolloutId }) => `${group} ${graded.get(rolloutId)?.code}`)
  const groups = new Set(trained.map(({ group }) => group))
  if (failuresAs === null) {
    expect(new Set(asked).size, 'a group was asked for one code').toBe(groups.size)
  }
  for (const calls of said.values()) {
    for (const [at, { promptIds, ids }] of calls.entries()) {
      const next = calls[at + 1]?.promptIds ?? [...promptIds, ...ids]
      const begun = next.slice(0, promptIds.length + ids.length)
      expect(begun, 'a prompt goes on with the words of the policy').toEqual([...promptIds, ...ids])
    }
  }
}

function loggedIn({ promptTokenIds, completionTokenIds, logprobs }: PolicyCall): SaidCall {
  return {
    promptIds: promptTokenIds ?? [],
    ids: completionTokenIds ?? [],
    logprobs: logprobsOf(logprobs),
  }
}

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
