import { z } from 'zod'

import { askJudge, askTogether, withJudge, type JudgeOptions } from './ask-judge.ts'
import { assertRubric, judgePrompt, replyFormat, type JudgedAnswer } from './judge-prompt.ts'

/** What a judge said. */
export interface RubricVote {
  readonly score: number
  /** Not empty. */
  readonly explanation: string
}

/** What {@link evaluateRubric} judges, and who judges. */
export interface RubricOptions extends JudgedAnswer, JudgeOptions {
  /** How often the judge is asked; the score is the median. Default: 1. */
  readonly votes?: number
  /** Default: 0. */
  readonly scoreMin?: number
  /** Default: 1. */
  readonly scoreMax?: number
}

/** A score by a rubric. */
export interface RubricScore {
  /** The median of the votes. */
  readonly score: number
  /** Of the vote nearest to the score. */
  readonly explanation: string
  readonly votes: readonly RubricVote[]
}

const format = replyFormat('rubric_response', {
  explanation: { type: 'string' },
  score: { type: 'number' },
})

/**
 * Lets a model score an answer by a rubric. For graders and eval functions: what the judge is asked never
 * goes to the policy under training, carries nothing of the rollout and is not a sample.
 *
 * What the answer says cannot reach the judge as an instruction: it stands between delimiters that are
 * drawn for each request. A reply without a usable score, an overloaded judge and a lost connection are
 * asked again twice.
 *
 * @throws OsmosisError with code `judge_failed` when there is no score, with `status` when the judge
 * refused; `invalid_config` for a model by name, see `providerModel`; TypeError for an empty rubric and for metadata without a JSON form,
 * RangeError for a range, a number of votes or a limit of tokens that is none; the reason of `signal` when aborted
 */
export async function evaluateRubric(options: RubricOptions): Promise<RubricScore> {
  const { votes: count = 1, scoreMin: min = 0, scoreMax: max = 1 } = options
  assertRubric(options.rubric)
  if (typeof options.answer !== 'string') throw new TypeError('The answer must be a text.')
  if (!(Number.isFinite(min) && Number.isFinite(max) && min < max)) {
    throw new RangeError(`scoreMin must be less than scoreMax, got ${min} and ${max}.`)
  }
  if (!(Number.isSafeInteger(count) && count >= 1)) {
    throw new RangeError(`votes must be a positive integer, got ${count}.`)
  }
  const range = { min, max }
  const reply = z.object({
    score: z.number().min(min).max(max),
    explanation: z.string().trim().min(1),
  })
  const question = {
    messages: () => judgePrompt(options, range, options.systemPrompt),
    format,
    reply,
    // Several votes that are drawn at temperature 0 would be one.
    ...(count === 1 ? { temperature: 0 } : {}),
  }
  const votes = await withJudge(options, async (judge) =>
    askTogether(options, async (signal) => {
      const limits = { ...options, signal }
      return Promise.all(Array.from({ length: count }, () => askJudge(judge, question, limits)))
    }),
  )
  const score = median(votes.map((one) => one.score))
  const nearest = votes.toSorted((a, b) => Math.abs(a.score - score) - Math.abs(b.score - score))
  return { score, explanation: nearest[0]?.explanation ?? '', votes }
}

/** Of an even number the mean of the two in the middle. */
export function median(scores: readonly number[]): number {
  const sorted = scores.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0
  return (lower + upper) / 2
}
