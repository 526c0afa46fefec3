import { defineReward, type EvalFunction, type EvalInput } from '@osmosis/agent-loop'

export const exact = defineReward((solutionStr, groundTruth) =>
  solutionStr === groundTruth ? 1 : 0,
)

/** How near the answer is; asks nobody, but asynchronously. */
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

/** Spoils what it was given. */
export const spoiling: EvalFunction = (input) => {
  const { messages, metadata } = input as { messages: unknown[]; metadata: Record<string, unknown> }
  messages.splice(0)
  metadata['tags'] = 'spoilt'
  return 0.5
}

/** How much of the row and the run it can see, of 5. */
export const sees: EvalFunction = ({ messages, metadata, reward }) => {
  const facts = [
    messages[0]?.role === 'user' && messages.at(-1)?.role === 'assistant',
    metadata['level'] === 3,
    JSON.stringify(metadata['tags']) === '["a","b"]',
    metadata['source'] === 'metadata',
    reward === 1,
  ]
  return facts.filter(Boolean).length
}

/** The same for a reward function: what it sees of the row, of 3. */
export const rowSeen = defineReward((_solution, groundTruth, extraInfo) => {
  const facts = [
    groundTruth === '5',
    extraInfo?.['level'] === 3,
    extraInfo?.['source'] === 'metadata',
  ]
  return facts.filter(Boolean).length
})

/** Says that it has begun, and never ends. */
export const hanging: EvalFunction = ({ solutionStr }) => {
  process.stderr.write(`judging ${solutionStr}\n`)
  return new Promise<number>(() => {})
}

export const classic = (solutionStr: string, groundTruth: string): number =>
  solutionStr === groundTruth ? 1 : 0

export const limit = 5
