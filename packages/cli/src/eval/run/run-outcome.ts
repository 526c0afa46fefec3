import { formatShare, type EvaluationResult } from '@osmosis/eval'

import { gateFailedCode } from '../../command/exit-codes.ts'
import { printError } from '../../command/command-context.ts'
import type { EvalRunFlags } from '../run.ts'
import { reasonSentence } from '../show/run-summary.ts'

/** The exit code of a run that has ended. Prints each reason why it is not 0. */
export function exitCodeOf(
  result: EvaluationResult,
  { minPassRate, grader }: EvalRunFlags,
): number {
  const errors = failuresOf(result, grader)
  for (const error of errors) printError(`error: ${error}\n`)
  if (errors.length > 0) return 1
  const passRate = passRateOf(result)
  if (minPassRate === undefined || passRate >= minPassRate) return 0
  printError(
    `error: The pass rate is ${formatShare(passRate)}, and --min-pass-rate requires ${formatShare(minPassRate)}.\n`,
  )
  return gateFailedCode
}

/** The only output of a quiet command, apart from errors. */
export function outcomeLine(result: EvaluationResult): string {
  return `${result.names.run} ${result.status}: ${formatShare(passRateOf(result))} passed`
}

/** By the first eval function; without any, by the reward. */
function passRateOf({ model: { summary } }: EvaluationResult): number {
  const [first = summary] = Object.values(summary.scores ?? {})
  return first.pass_rate
}

function failuresOf({ incompleteReason, model }: EvaluationResult, needsReward: boolean): string[] {
  const { graded, completed_samples: completed, scores = {} } = model.summary
  const missing = Object.entries(scores).filter(([, score]) => score.graded === 0)
  const isUnscored = Object.keys(scores).length === 0 && graded === 0 && completed > 0
  return [
    ...missing.map(([score]) => `${score} scored no rollout of ${model.name}.`),
    ...(isUnscored && needsReward ? [`No rollout of ${model.name} got a reward.`] : []),
    ...(incompleteReason === null
      ? []
      : [`The run is incomplete. ${reasonSentence(incompleteReason)}`]),
  ]
}
