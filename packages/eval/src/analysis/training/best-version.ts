import type { EvaluationRecord, StepRecord, TrainingRecord } from './training-records.ts'

/** What a training measured of its policies. */
export interface MeasuredVersions {
  readonly steps: readonly Pick<StepRecord, 'sampledBy' | 'rollouts'>[]
  readonly evaluations: readonly Pick<EvaluationRecord, 'version' | 'rollouts'>[]
}

/**
 * The reward of each version of the policy: on held-out rows where these were evaluated, else the mean over the steps
 * whose rollouts it answered. Versions without a reward are missing.
 */
export function rewardsByVersion({
  steps,
  evaluations,
}: MeasuredVersions): ReadonlyMap<number, number> {
  const heldOut = evaluations.flatMap(({ version, rollouts: { reward } }) =>
    reward === null ? [] : [{ version, reward }],
  )
  const measured =
    heldOut.length > 0
      ? heldOut
      : steps.flatMap(({ sampledBy: version, rollouts: { reward } }) =>
          reward === null ? [] : [{ version, reward }],
        )
  return new Map(
    [...Map.groupBy(measured, ({ version }) => version)].map(([version, own]) => [
      version,
      own.reduce((sum, { reward }) => sum + reward, 0) / own.length,
    ]),
  )
}

/**
 * The run with the rollouts of the best policy, by {@link rewardsByVersion}: the first of those with the highest reward.
 * Undefined while no two versions have a reward.
 */
export function bestRun(records: readonly TrainingRecord[]): string | undefined {
  const steps = records.filter((record) => record.kind === 'step')
  const evaluations = records.filter((record) => record.kind === 'evaluation')
  const rewards = rewardsByVersion({ steps, evaluations })
  if (rewards.size < 2) return undefined
  const [best] = [...rewards].reduce((a, b) => (b[1] > a[1] ? b : a))
  const evaluated = evaluations.find(
    ({ version, rollouts }) => version === best && rollouts.reward !== null,
  )
  return (evaluated ?? steps.find(({ sampledBy }) => sampledBy === best))?.run
}
