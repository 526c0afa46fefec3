import { formatShare, type EvaluationResult } from '@osmosis/eval'

import { reasonSentence } from '../eval-show/run-report.ts'
import type { EvalRunFlags } from './eval-commands.ts'

const gateFailedCode = 3

/** The exit code of a run that is over; `print` gets what keeps it from being 0, a line each. */
export function exitCodeOf(
  result: EvaluationResult,
  { minPassRate, grader }: EvalRunFlags,
  print: (text: string) => void,
): number {
  const errors = complaintsAbout(result, grader !== false)
  for (const error of errors) print(`error: ${error}`)
  if (errors.length > 0) return 1
  const passRate = passRateOf(result)
  if (minPassRate === undefined || passRate >= minPassRate) return 0
  print(
    `error: The pass rate is ${formatShare(passRate)}, and --min-pass-rate asks for ${formatShare(minPassRate)}.`,
  )
  return gateFailedCode
}

/** All that a quiet command says of a run that is over, but for errors. */
export function outcomeLine(result: EvaluationResult): string {
  return `${result.names.run} ${result.status}: ${formatShare(passRateOf(result))} passed`
}

/** By the first eval function; without any, by the reward. */
function passRateOf({ model: { metrics } }: EvaluationResult): number {
  const [first = metrics.reward] = Object.values(metrics.scores)
  return first.passRate
}

function complaintsAbout(
  { incompleteReason, model, baseline }: EvaluationResult,
  needsReward: boolean,
): string[] {
  const models = baseline === null ? [model] : [model, baseline]
  const errors = models.flatMap(({ name, metrics: { scores, reward, completedItems } }) => {
    const missing = Object.entries(scores).filter(([, { graded }]) => graded === 0)
    if (missing.length > 0)
      return missing.map(([score]) => `${score} scored no rollout of ${name}.`)
    const none = Object.keys(scores).length === 0 && reward.graded === 0 && completedItems > 0
    return none && needsReward ? [`No rollout of ${name} got a reward.`] : []
  })
  if (incompleteReason === null) return errors
  return [...errors, `The run is incomplete. ${reasonSentence(incompleteReason)}`]
}
