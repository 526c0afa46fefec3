import { distribution, type Distribution, quantities } from './behaviour-figures.ts'
import type { Estimate } from './estimate.ts'
import { drawSizes, type DrawEstimate, gradientAt, gradientShare } from './reward-figures.ts'
import type { RunTable } from './run-table.ts'
import type { Sign } from './signs.ts'
import { isFields, type TrajectoryLike } from './trajectory-shape.ts'

/** What a trainer would get of the rollouts of a run; those that graders took out are none of them. */
export interface TrainingReadiness {
  readonly rollouts: number
  /** Share of rows with a gradient, as `stats.gradient` of a run has it. */
  readonly gradient: Estimate
  /** The same in smaller groups: of 2, 4, … attempts. */
  readonly smallerGroups: readonly DrawEstimate[]
  /** Rollouts without a reward: trainers leave them out, and their groups are smaller. */
  readonly withoutReward: number
  /** Rollouts that succeeded without asking the policy: there is nothing to train on. */
  readonly withoutCalls: number
  /** Rollouts with a call that ended for want of tokens. */
  readonly cut: number
  /** Rollouts with a call that did not extend the conversation before it: trainers split or mask there. */
  readonly rewritten: number
  /** Tokens that the policy wrote in a rollout: those that are trained. */
  readonly tokens: Distribution
}

/** Computes what there is to say of a run before it is trained on. */
export function trainingReadiness(table: RunTable): TrainingReadiness {
  const having = (sign: Sign): number => count(table, (item) => table.has(item, sign))
  return {
    rollouts: count(table, () => true),
    gradient: gradientShare(table),
    smallerGroups: drawSizes(table.document.attempts)
      .filter((size) => size > 1 && size < table.document.attempts)
      .map((size) => gradientAt(table, size)),
    withoutReward: count(table, (item) => table.value(item) === null),
    withoutCalls: having('nocalls'),
    cut: having('cut'),
    rewritten: having('rewritten'),
    tokens: distribution(table, quantities(table).completion_tokens),
  }
}

/**
 * The places of a conversation where a call did not extend what had been said before, as the numbers of
 * steps, from 1; null for a call whose answer is in no step.
 */
export function rewrittenSteps({ steps, extra }: TrajectoryLike): (number | null)[] {
  const inSteps = steps.flatMap(({ metrics }, index) =>
    metrics?.extra?.['history_rewritten'] === true ? [index + 1] : [],
  )
  const osmosis = extra?.['osmosis']
  const outside = isFields(osmosis) ? osmosis['calls_without_step'] : undefined
  const others = (Array.isArray(outside) ? outside : []).filter(
    (call: unknown) =>
      isFields(call) && isFields(call['extra']) && call['extra']['history_rewritten'] === true,
  )
  return [...inSteps, ...others.map(() => null)]
}

/** What its model calls gave as their `user-agent`, such as `Agents/JavaScript 0.11.0`; null for nothing. */
export function frameworkOf({ extra }: TrajectoryLike): string | null {
  const osmosis = extra?.['osmosis']
  const fields = isFields(osmosis) ? osmosis['sample_extra_fields'] : undefined
  const userAgent = isFields(fields) ? fields['user_agent'] : undefined
  return typeof userAgent === 'string' ? userAgent : null
}

function count(table: RunTable, has: (item: number) => boolean): number {
  let items = 0
  for (let item = 0; item < table.size; item++) if (table.counts(item) && has(item)) items += 1
  return items
}
