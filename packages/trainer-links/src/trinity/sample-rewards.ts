import type { ExecutionOutcome } from '@osmosis/server/execution'
import type { RolloutSample } from '@osmosis/core'

import type { CallReward, EndedGroup } from './trinity-journal.ts'

/** The rewards of the answered calls of a rollout. */
export function rewardsOf(end: ExecutionOutcome): CallReward[] {
  return end.kind === 'rewarded' ? [...end.samples.values()].flatMap(sampleRewards) : []
}

/** The number of answered calls without an id, which cannot be rewarded and should be. */
export function callsWithoutId(end: ExecutionOutcome): number {
  if (end.kind !== 'rewarded') return 0
  const calls = [...end.samples.values()].flatMap((sample) => sample.calls)
  return calls.filter(({ id, error, trainable }) => error === null && id === null && trainable)
    .length
}

/** A call without a step reward has the reward of the sample. Calls without any reward are not trained. */
function sampleRewards({ calls, reward, stepRewards }: RolloutSample): CallReward[] {
  const byReward = new Map<number, string[]>()
  for (const [step, { id, trainable }] of calls.filter(({ error }) => error === null).entries()) {
    const own = stepRewards?.[step] ?? reward
    if (id === null || own === null || !trainable) continue
    const ids = byReward.get(own) ?? []
    ids.push(id)
    byReward.set(own, ids)
  }
  return [...byReward].map(([own, ids]) => ({ ids, reward: own }))
}

/** The groups without ids that occur more than once, which name no single call, and these ids. */
export function withoutRepeatedIds(
  groups: readonly EndedGroup[],
  isUsed: (id: string) => boolean,
): { groups: EndedGroup[]; repeated: ReadonlySet<string> } {
  const seen = new Set<string>()
  const repeated = new Set<string>()
  for (const id of groups.flatMap(({ attempts }) => attempts.flat()).flatMap(({ ids }) => ids)) {
    if (seen.has(id) || isUsed(id)) repeated.add(id)
    seen.add(id)
  }
  if (repeated.size === 0) return { groups: [...groups], repeated }
  const unique = ({ ids, reward }: CallReward): CallReward => ({
    ids: ids.filter((id) => !repeated.has(id)),
    reward,
  })
  return {
    groups: groups.map(({ group, attempts }) => ({
      group,
      attempts: attempts.map((calls) => calls.map(unique).filter(({ ids }) => ids.length > 0)),
    })),
    repeated,
  }
}
