import {
  toTrainingSequences,
  type SampleSequences,
  missingOf,
  type SequenceCall,
  wrongIdsOf,
} from '@osmosis/protocol/trajectory'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

function call(
  prompt: readonly number[],
  answer: readonly number[],
  more: Partial<SequenceCall> = {},
): SequenceCall {
  return {
    promptTokenIds: prompt,
    completionTokenIds: answer,
    logprobs: { content: answer.map((id) => ({ token: '', logprob: -id / 10 })) },
    error: null,
    version: 'policy-1',
    trainable: true,
    sampling: {},
    finishReason: 'stop',
    ...more,
  }
}

const tokens = (maxLength: number): fc.Arbitrary<number[]> =>
  fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength })

/** The settings in which a temperature can be missing, or be no number. */
const samplings = fc.constantFrom<Readonly<Record<string, unknown>>>(
  {},
  { temperature: 1 },
  { temperature: 0 },
  { temperature: 0.7 },
  { temperature: 0.7, top_p: 0.9 },
  { temperature: 'hot' },
)

/** How a call is left out, and otherwise how it ends. */
const ends = fc.constantFrom<Partial<SequenceCall>>(
  {},
  {},
  { finishReason: 'length' },
  { finishReason: 'tool_calls' },
  { finishReason: null },
  { error: 'refused', completionTokenIds: null, logprobs: null },
  { trainable: false },
  { completionTokenIds: null },
  { promptTokenIds: null },
  { logprobs: null },
)

/** Calls that continue, branch and repeat what an earlier call had, or begin anew; some say the beginning of it again. */
const samples = fc
  .array(
    fc.record({
      after: fc.option(fc.nat(), { nil: undefined }),
      keep: fc.constantFrom('all', 'all', 'all but the last', 'and says it again'),
      more: tokens(2),
      answer: tokens(3),
      sampling: samplings,
      version: fc.constantFrom('policy-1', 'policy-2', null),
      end: ends,
    }),
    { maxLength: 10 },
  )
  .map((steps) => {
    const texts: number[][] = []
    return steps.map(({ after, keep, more, answer, sampling, version, end }) => {
      const base = after === undefined ? [] : (texts[after % Math.max(1, texts.length)] ?? [])
      if (keep === 'and says it again' && base.length > 1) {
        const from = Math.max(1, base.length - more.length - 1)
        const [prompt, again] = [base.slice(0, from), base.slice(from, -1)]
        return call(prompt, again.length === 0 ? answer : again, { sampling, version, ...end })
      }
      const prompt = [...(keep === 'all' ? base : base.slice(0, -1)), ...more]
      texts.push([...prompt, ...answer])
      return call(prompt, answer, { sampling, version, ...end })
    })
  })

/** Tokens as text, of which prefixes are plain to see. */
const text = (ids: readonly number[] | null): string => (ids ?? []).join('')

/** Which calls are answers of one sequence, by looking at texts. */
function expectedSequences(calls: readonly SequenceCall[]): { text: string; calls: number[] }[] {
  const open: { text: string; calls: number[]; temperature: number | null }[] = []
  for (const [at, one] of calls.entries()) {
    const { promptTokenIds: prompt, completionTokenIds: answer, logprobs, sampling } = one
    if (one.error !== null || !one.trainable) continue
    if (prompt === null || answer === null || logprobs === null) continue
    const given = sampling['temperature']
    const temperature = typeof given === 'number' ? given : null
    const [longest] = open
      .filter((other) => other.temperature === temperature && text(prompt).startsWith(other.text))
      .toSorted((a, b) => b.text.length - a.text.length)
    const sequence = longest ?? { text: '', calls: [], temperature }
    if (longest === undefined) open.push(sequence)
    sequence.text = text(prompt) + text(answer)
    sequence.calls.push(at)
  }
  return open.map(({ text: all, calls: own }) => ({ text: all, calls: own }))
}

function found({ sequences }: SampleSequences): { text: string; calls: number[] }[] {
  return sequences.map(({ ids, answers }) => ({
    text: text(ids),
    calls: answers.map((answer) => answer.call),
  }))
}

describe('the training sequences of a sample', () => {
  it('join each call to the longest sequence that its prompt begins with', () => {
    fc.assert(
      fc.property(samples, (calls) => {
        expect(found(toTrainingSequences(calls))).toEqual(expectedSequences(calls))
      }),
      { numRuns: 500 },
    )
  })

  it('have each sampled token once: behind its prompt, with its logprob, its version and its temperature', () => {
    fc.assert(
      fc.property(samples, (calls) => {
        const { sequences, withoutIds, untrainable } = toTrainingSequences(calls)
        const seen: number[] = []
        for (const { ids, logprobs, answers, temperature } of sequences) {
          expect(logprobs).toHaveLength(ids.length)
          const sampled = new Set<number>()
          for (const { call: at, start, end, version, isCut = false } of answers) {
            const own = calls[at]
            seen.push(at)
            expect(ids.slice(0, start)).toEqual(own?.promptTokenIds)
            expect(ids.slice(start, end)).toEqual(own?.completionTokenIds)
            const recorded = own?.completionTokenIds?.map((id) => -id / 10)
            expect(logprobs.slice(start, end)).toEqual(recorded)
            expect(version).toBe(own?.version)
            expect(isCut).toBe(own?.finishReason === 'length')
            const given = own?.sampling['temperature']
            expect(temperature).toBe(typeof given === 'number' ? given : null)
            for (let place = start; place < end; place += 1) {
              expect(sampled.has(place)).toBe(false)
              sampled.add(place)
            }
          }
          const others = logprobs.filter((_, place) => !sampled.has(place))
          expect(others.every((logprob) => logprob === 0)).toBe(true)
        }
        // Each answer is in one sequence, or is counted as left out, unless its call failed.
        expect(new Set(seen).size).toBe(seen.length)
        const answered = calls.filter(({ error }) => error === null)
        expect(untrainable).toBe(answered.filter(({ trainable }) => !trainable).length)
        expect(seen.length + withoutIds + untrainable).toBe(answered.length)
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    ['length', true],
    ['stop', false],
    ['tool_calls', false],
    ['function_call', false],
    ['content_filter', false],
    [null, false],
    [undefined, false],
  ] as const)('call an answer that ended with %s cut: %s', (finishReason, isCut) => {
    const { sequences } = toTrainingSequences([
      call([1], [2], { finishReason: finishReason ?? null }),
    ])
    expect(sequences[0]?.answers[0]?.isCut ?? false).toBe(isCut)
  })

  it('say what held an answer to a form', () => {
    const { sequences } = toTrainingSequences([
      call([1], [2]),
      call([1, 2, 3], [4], { sampling: { constraints: ['tool_choice', 'tools.strict'] } }),
      call([1, 2, 3, 4, 5], [6]),
    ])
    expect(sequences.map(({ answers }) => answers.map(({ constraints }) => constraints))).toEqual([
      [undefined, ['tool_choice', 'tools.strict'], undefined],
    ])
  })

  it('continue the longest of several that a prompt begins with, whichever came first', () => {
    const [long, short] = [call([1], [2, 3, 4]), call([1], [2])]
    const next = call([1, 2, 3, 4, 5], [6])
    for (const calls of [
      [long, short, next],
      [short, long, next],
    ]) {
      const joined = toTrainingSequences(calls).sequences.map(({ ids }) => ids.join(''))
      expect(joined.toSorted()).toEqual(['12', '123456'])
    }
  })

  it.each([
    ['another one', { temperature: 0.7 }, 0.7],
    ['the usual one', { temperature: 1 }, 1],
    ['unknown, because the request names none', {}, null],
    ['unknown, because the request names no number', { temperature: 'hot' }, null],
  ])(
    'split where the temperature becomes %s, and continue where it changes back',
    (_, other, known) => {
      const [cold, warm] = [{ sampling: { temperature: 0.2 } }, { sampling: other }]
      const { sequences } = toTrainingSequences([
        call([1], [2], cold),
        call([1, 2, 3], [4], warm),
        call([1, 2, 3, 4, 5], [6], cold),
        call([1, 2, 3, 4, 5, 6, 7], [8], warm),
      ])
      expect(sequences).toMatchObject([
        { temperature: 0.2, answers: [{ call: 0 }, { call: 2 }], ids: [1, 2, 3, 4, 5, 6] },
        { temperature: known, answers: [{ call: 1 }, { call: 3 }], ids: [1, 2, 3, 4, 5, 6, 7, 8] },
      ])
    },
  )

  it('leave out an answer that has not one finite logprob for each token', () => {
    const logprobsOf = (...content: readonly unknown[]): Partial<SequenceCall> => ({
      logprobs: { content } as unknown as SequenceCall['logprobs'],
    })
    const broken = [
      logprobsOf({ logprob: -1 }),
      logprobsOf({ logprob: -1 }, { logprob: -1 }, { logprob: -1 }),
      logprobsOf({ logprob: -1 }, { logprob: null }),
      logprobsOf({ logprob: -1 }, { logprob: Number.NEGATIVE_INFINITY }),
      logprobsOf({ logprob: -1 }, null),
      logprobsOf({ logprob: -1 }, { logprob: '-1' }),
    ].map((more) => call([1], [2, 3], more))
    expect(toTrainingSequences(broken)).toEqual({ sequences: [], withoutIds: 6, untrainable: 0 })
  })

  it.each([
    ['fewer ids than were counted', { usage: usage(5) }],
    ['more ids than were counted', { usage: usage(1) }],
    ['ids that were sent twice', { ...call([1], [2, 3, 2, 3]), usage: usage(2) }],
    ['no ids of the prompt', { promptTokenIds: [] }],
    ['ids that are no whole numbers', { completionTokenIds: [2, 2.5] }],
    ['ids below 0', { completionTokenIds: [2, -1] }],
    ['ids that are texts', { promptTokenIds: ['1'] as never }],
    ['ids that are no numbers', { completionTokenIds: [2, Number.NaN] }],
  ])('leave out an answer with %s', (_what, more) => {
    const broken = call([1], [2, 3], more)
    expect(toTrainingSequences([broken])).toEqual({ sequences: [], withoutIds: 1, untrainable: 0 })
    expect(missingOf(broken)).toMatch(/^the policy gave /)
    expect(wrongIdsOf(broken)).toBe(missingOf(broken))
  })

  it.each([
    ['the count of its ids', { usage: usage(2) }],
    ['one more for the token that ends it, which is not listed', { usage: usage(3) }],
    ['a count of 0, which servers send that do not count', { usage: usage(0) }],
    ['no count', { usage: null }],
  ])('have an answer with %s', (_what, more) => {
    const whole = call([1], [2, 3], more)
    expect(toTrainingSequences([whole]).sequences).toHaveLength(1)
    expect([missingOf(whole), wrongIdsOf(whole)]).toEqual([undefined, undefined])
  })

  it('know nothing wrong of an answer for which no ids came, as from endpoints that record them', () => {
    const without = call([1], [2], { promptTokenIds: null, completionTokenIds: null })
    expect(wrongIdsOf({ ...without, usage: usage(9) })).toBeUndefined()
    expect(missingOf(without)).toBe('the policy gave no token ids')
    const ofUser = { ...without, promptTokenIds: undefined, completionTokenIds: undefined }
    expect(wrongIdsOf(ofUser as never)).toBeUndefined()
  })
})

function usage(completion: number): SequenceCall['usage'] & object {
  return { prompt_tokens: 1, completion_tokens: completion, total_tokens: completion + 1 }
}
