import { lastAssistantText } from '@osmosis/core'
import { evaluateRubric, pairwiseJudge, panel, type ChatModel } from '@osmosis/models'
import { describe, expect, it } from 'vitest'

import { gradedHello, judgeThat, secretOf, silentJudge, textOf } from './scripted-judge.ts'

const rubric = 'The more polite answer is better.'
const scored = (score: number, explanation = 'It greets.'): string =>
  JSON.stringify({ explanation, score })
const better = (which: unknown, explanation = 'It is polite.'): string =>
  JSON.stringify({ explanation, better: which })

describe('a pairwise judge', () => {
  it('sees both answers in both orders, each in its own part', async () => {
    const model = judgeThat(better('1'), better('2'))
    const result = await pairwiseJudge('Good day', 'What?', {
      rubric,
      originalInput: 'Greet me.',
      model,
    })
    expect(result).toEqual({
      winner: 'first',
      score: 1,
      agrees: true,
      explanations: ['It is polite.', 'It is polite.'],
    })
    const [forwards, backwards] = model.requests.map(({ messages }) => {
      const secret = secretOf(messages)
      return textOf(messages[1]).replaceAll(secret, '*')
    })
    expect(forwards).toBe(`Rubric:
${rubric}

[begin ORIGINAL INPUT *]
Greet me.
[end ORIGINAL INPUT *]

[begin ANSWER 1 *]
Good day
[end ANSWER 1 *]

[begin ANSWER 2 *]
What?
[end ANSWER 2 *]`)
    expect(backwards).toContain('[begin ANSWER 1 *]\nWhat?\n')
    expect(backwards).toContain('[begin ANSWER 2 *]\nGood day\n')
  })

  it.each([
    ['1', '2', { winner: 'first', score: 1, agrees: true }],
    ['2', '1', { winner: 'second', score: 0, agrees: true }],
    ['tie', 'tie', { winner: 'tie', score: 0.5, agrees: true }],
    // Always the one in front, always the other one: the position decides.
    ['1', '1', { winner: 'tie', score: 0.5, agrees: false }],
    ['2', '2', { winner: 'tie', score: 0.5, agrees: false }],
    ['1', 'tie', { winner: 'tie', score: 0.5, agrees: false }],
  ])('that replies %s and then %s finds %o', async (forwards, backwards, expected) => {
    const model = judgeThat(better(forwards), better(backwards))
    expect(await pairwiseJudge('a', 'b', { rubric, model })).toMatchObject(expected)
  })

  it.each([['3'], [1], [null]])('that replies %j twice in a row fails', async (which) => {
    const model = judgeThat(better(which))
    await expect(pairwiseJudge('a', 'b', { rubric, model })).rejects.toMatchObject({
      code: 'judge_failed',
    })
    expect(model.requests.length).toBeGreaterThanOrEqual(3)
  })

  it('needs two answers', async () => {
    const model = judgeThat(better('1'))
    for (const [first, second] of [
      [null, 'b'],
      ['a', undefined],
    ] as unknown as [string, string][]) {
      const judged = pairwiseJudge(first, second, { rubric, model })
      await expect(judged).rejects.toThrow('Both answers must be texts.')
    }
    expect(model.requests).toEqual([])
  })

  it('needs a rubric', async () => {
    const model = judgeThat(better('1'))
    await expect(pairwiseJudge('a', 'b', { rubric: ' ', model })).rejects.toThrow(TypeError)
  })
})

describe('a panel of judges', () => {
  const models = (...scores: readonly number[]) => scores.map((score) => judgeThat(scored(score)))
  const judged = { rubric, answer: 'Hello' }

  it('gives the median, what each judge said, and how far they agree', async () => {
    const result = await panel({ ...judged, models: models(0.2, 1, 0.7) })
    expect(result).toMatchObject({ score: 0.7, agreement: 1 / 3 })
    expect(result.judges.map(({ score }) => score)).toEqual([0.2, 1, 0.7])
    expect(await panel({ ...judged, models: models(0.5, 1) })).toMatchObject({
      score: 0.75,
      agreement: 1,
    })
  })

  it('gives what the majority says; half of the judges are none', async () => {
    const by = 'majority' as const
    expect(await panel({ ...judged, by, models: models(0.2, 1, 0.7) })).toMatchObject({ score: 1 })
    expect(await panel({ ...judged, by, models: models(0, 1) })).toMatchObject({
      score: 0,
      agreement: 0,
    })
    const range = { scoreMin: 1, scoreMax: 5, passThreshold: 4 }
    expect(await panel({ ...judged, ...range, by, models: models(3, 4, 3) })).toMatchObject({
      score: 1,
    })
  })

  it('has two judges or more', async () => {
    await expect(panel({ ...judged, models: models(1) })).rejects.toThrow(RangeError)
  })

  it('gives no reward when one judge fails, though the others have a score', async () => {
    const { grading } = await gradedHello(async (ctx) => {
      const refusing = judgeThat({ status: 401, message: 'no key' })
      const answer = lastAssistantText(ctx.sample)
      const { score } = await panel({ rubric, answer, models: [...models(1, 1), refusing] })
      ctx.setReward(score)
    })
    expect(grading).toMatchObject({
      status: 'failure',
      failure: { message: expect.stringContaining('The judge judge gave no score') },
    })
  })
})

it('judges that still think are ended when one of them fails', async () => {
  const silent = silentJudge()
  const refusing = judgeThat({ status: 401, message: 'no key' })
  let calls = 0
  // The first call is never answered, and the second one is refused.
  const mixed: ChatModel = {
    name: 'mixed',
    respond: async (request) => (calls++ % 2 === 0 ? silent : refusing).respond(request),
  }
  const judged = { rubric, answer: 'Hello' }
  const asked = [
    () => evaluateRubric({ ...judged, model: mixed, votes: 2 }),
    () => pairwiseJudge('Hello', 'Hi', { rubric, model: mixed }),
    () => panel({ ...judged, models: [silent, refusing] }),
  ]
  for (const ask of asked) await expect(ask()).rejects.toMatchObject({ status: 401 })
  expect(silent.signals.map(({ aborted }) => aborted)).toEqual([true, true, true])
})
