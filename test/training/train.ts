import { expect } from 'vitest'

import { learn, TinyPolicy, type FakeModel, type TrainedCall } from '../kit/trainers/index.ts'
import type { AskForCode } from './agents/ask-for-code.ts'
import { doorRollouts, rows, type GradedRollout } from './door-rollouts.ts'
import type { TrainerUnderTest } from './trainer-under-test.ts'
import { expectWhatWasSaid, saidIn, type SaidCall } from './what-was-said.ts'

/** A seed with which a policy needs few rollouts to get from guesses to the goal. */
export const run = { seed: 65, iterations: 6 }

/** Mean reward of a policy that has learned to read the note, and mostly what is done with it. */
export const goal = 0.7

/** Settings of a training run. */
export interface TrainingOptions {
  readonly seed: number
  readonly agent: AskForCode
  readonly trainer: TrainerUnderTest
  /** Rollouts of each row in an iteration. Default: 6. */
  readonly attempts?: number
  /** Maximum number of updates of the policy. */
  readonly iterations: number
  /** Ends the run as soon as the mean reward reaches this. Default: all iterations run. */
  readonly until?: number
  /** Share of the rollouts with tool calls that fail. Default: 0. */
  readonly failing?: number
  /** What the trainer gives rollouts that have no reward. Default: null, it leaves them out. */
  readonly failuresAs?: number | null
  /** Replaces the calls that the policy learns from. Default: those that were trained. */
  readonly learnFrom?: (calls: readonly TrainedCall[]) => readonly TrainedCall[]
}

/** How the rollouts of one version of the policy went. */
export interface Iteration {
  /** Mean of the rollouts that have one. */
  readonly reward: number
  /** Share of the rollouts that called the tool. */
  readonly toolUse: number
}

/**
 * Trains a tiny policy through a trainer, and resolves with one iteration more than there were updates. Fails unless, after
 * each iteration, the trainer would train, and the rollout server has logged, exactly what the policy said.
 */
export async function train(options: TrainingOptions): Promise<Iteration[]> {
  const {
    seed,
    agent,
    iterations,
    attempts = 6,
    until = Infinity,
    failing = 0,
    learnFrom = (calls) => calls,
  } = options
  const { nameOf = (rolloutId) => rolloutId } = options.trainer
  const policy = new TinyPolicy({ seed })
  const said = new Map<string, SaidCall[]>()
  const model: FakeModel = (body, id) => {
    const rolloutId = nameOf(id)
    const answer = policy.complete(body, rolloutId)
    said.set(rolloutId, [...(said.get(rolloutId) ?? []), saidIn(answer)])
    return answer
  }
  const { backend, graded } = doorRollouts(agent, { failing, nameOf })
  await using trainer = await options.trainer.open(model, backend)

  const curve: Iteration[] = []
  let known = 0
  for (;;) {
    said.clear()
    graded.clear()
    await trainer.runBatch(rows, attempts)
    const all = trainer.trained()
    const trained = all.slice(known).map((call) => ({ ...call, rolloutId: nameOf(call.rolloutId) }))
    known = all.length
    expect(said.size, 'every rollout asks the policy').toBe(rows.length * attempts)
    expectWhatWasSaid(said, { graded, trained, failuresAs: options.failuresAs ?? null })
    const iteration = iterationOf(said, graded)
    curve.push(iteration)
    if (iteration.reward >= until || curve.length > iterations) return curve
    learn(policy, learnFrom(trained))
  }
}

/** How the rollouts of an iteration went. */
export function iterationOf(
  said: ReadonlyMap<string, readonly SaidCall[]>,
  graded: ReadonlyMap<string, GradedRollout>,
): Iteration {
  const rewards = [...graded.values()].map(({ reward }) => reward)
  const withTool = [...said.values()].filter((calls) => calls.length > 1)
  return {
    reward: rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length,
    toolUse: withTool.length / said.size,
  }
}
