import { defineReward, type EvalFunction, type EvalInput } from '@osmosis/agent-loop'

export const exact = defineReward((solutionStr, groundTruth) =>
  solutionStr === groundTruth ? 1 : 0,
)

/** How near the answer is; computed locally, but asynchronously. */
export const closeness: EvalFunction = async ({ solutionStr, groundTruth }) => {
  await Promise.resolve()
  return 1 / (1 + Math.abs(Number(solutionStr) - Number(groundTruth)))
}

/** Cannot score every other answer. */
export function moody({ solutionStr, reward }: EvalInput): number {
  if (Number(solutionStr) % 2 === 0) throw new Error('no even numbers\ntoday')
  return reward ?? 0
}

export const notANumber: EvalFunction = ({ groundTruth }) =>
  groundTruth === '5' ? Number.NaN : ('1' as never)

/** Prints that it has started, and never ends. */
export const hanging: EvalFunction = ({ solutionStr }) => {
  process.stderr.write(`judging ${solutionStr}\n`)
  return new Promise<number>(() => {})
}

export const classic = (solutionStr: string, groundTruth: string): number =>
  solutionStr === groundTruth ? 1 : 0

export const limit = 5
