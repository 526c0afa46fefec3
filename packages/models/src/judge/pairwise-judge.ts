import { z } from 'zod'

import { askJudge, askTogether, withJudge, type JudgeOptions } from './ask-judge.ts'
import { assertRubric, promptWithParts, replyFormat, type JudgedAnswer } from './judge-prompt.ts'

/** How {@link pairwiseJudge} compares two answers. */
export interface PairwiseOptions extends JudgeOptions, Omit<JudgedAnswer, 'answer'> {}

/** Which of two answers is better. */
export interface PairwiseResult {
  /** `tie` when the judge finds them equally good, and when its two replies differ. */
  readonly winner: 'first' | 'second' | 'tie'
  /** Of the first answer: 1 when it is better, 0 when the other one is, 0.5 for a tie. */
  readonly score: 0 | 0.5 | 1
  /** False when the judge changed its mind with the order of the answers: its bias is larger than the difference. */
  readonly agrees: boolean
  /** With the first answer in front, and with the second one in front. */
  readonly explanations: readonly [string, string]
}

const winners = ['1', '2', 'tie'] as const

const reply = z.object({ explanation: z.string().trim().min(1), better: z.enum(winners) })

const format = replyFormat('pairwise_response', {
  explanation: { type: 'string' },
  better: { type: 'string', enum: winners },
})

const task =
  'You compare two answers to one request by a rubric, and reply with one JSON object: {"explanation": why, in a few sentences, "better": "1" or "2", the number of the better answer, or "tie" when they are equally good}. The order of the answers means nothing.'

/**
 * Lets a model decide which of two answers is better. It is called twice, with the answers in both orders, because
 * judges prefer a position. What `evaluateRubric` says about the request and its repetition holds here.
 *
 * @throws OsmosisError with code `judge_failed` when a call gives no decision, `invalid_config` for a model by name,
 * see `providerModel`; TypeError for an empty rubric and for an answer that
 * is no text; the reason of `signal` when aborted
 */
export async function pairwiseJudge(
  first: string,
  second: string,
  options: PairwiseOptions,
): Promise<PairwiseResult> {
  const { rubric, originalInput, groundTruth, metadata, systemPrompt } = options
  assertRubric(rubric)
  for (const answer of [first, second] as readonly unknown[]) {
    if (typeof answer !== 'string') throw new TypeError('Both answers must be texts.')
  }
  const question = (one: string, two: string) => ({
    messages: () =>
      promptWithParts(systemPrompt, task, rubric, {
        'ORIGINAL INPUT': originalInput,
        'ANSWER 1': one,
        'ANSWER 2': two,
        'GROUND TRUTH': groundTruth,
        METADATA: metadata == null ? null : JSON.stringify(metadata, null, 2),
      }),
    format,
    reply,
    temperature: 0,
  })
  const [forwards, backwards] = await withJudge(options, async (judge) =>
    askTogether(options, async (signal) => {
      const limits = { ...options, signal }
      return Promise.all([
        askJudge(judge, question(first, second), limits),
        askJudge(judge, question(second, first), limits),
      ])
    }),
  )
  const [one, other] = [
    ({ '1': 'first', '2': 'second', tie: 'tie' } as const)[forwards.better],
    ({ '1': 'second', '2': 'first', tie: 'tie' } as const)[backwards.better],
  ]
  const winner = one === other ? one : 'tie'
  return {
    winner,
    score: ({ first: 1, second: 0, tie: 0.5 } as const)[winner],
    agrees: one === other,
    explanations: [forwards.explanation, backwards.explanation],
  }
}
