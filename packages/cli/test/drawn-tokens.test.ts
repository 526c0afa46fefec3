import { expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'
import { drawDeviation } from '../src/checks/endpoint/drawn-tokens.ts'
import { drawLetters, randomOf, type Draws } from './drawn-letters.ts'

const servers = runs(160)

/** The deviations of servers that draw like this, with other random numbers each. */
function deviations(draws: Draws): number[] {
  return Array.from({ length: servers }, (_, seed) => {
    return drawDeviation(drawLetters(4 * 64, draws, randomOf(seed))) ?? Number.NaN
  })
}

it('tokens that are drawn as their logprobs say deviate like the larger one of two normal numbers', () => {
  const all = deviations({})
  const mean = all.reduce((sum, one) => sum + one, 0) / all.length
  const variance = all.reduce((sum, one) => sum + one * one, 0) / all.length
  expect(Math.abs(mean)).toBeLessThan(0.3)
  // 1 if the two are the same, 1 + 2/π if they have nothing in common.
  expect(variance).toBeGreaterThan(0.8)
  expect(variance).toBeLessThan(2)
  expect(Math.max(...all.map(Math.abs))).toBeLessThan(5)
})

it.each([
  [{ temperature: 0.7 }, 1],
  [{ topK: 5 }, 1],
  [{ topK: 20 }, 1],
  [{ temperature: 1.2, topK: 20 }, 1],
  [{ temperature: 0.8, topK: 20 }, 1],
  [{ temperature: 2.5 }, -1],
] as const)('tokens that are drawn with %j deviate by more than 5', (draws, sign) => {
  const found = deviations(draws).filter((one) => one * sign > 5)
  expect(found.length).toBeGreaterThan(0.95 * servers)
})

it('too few tokens, and tokens without the likely ones, say nothing', () => {
  const tokens = drawLetters(200, {}, randomOf(1))
  expect(drawDeviation(tokens.slice(0, 29))).toBeUndefined()
  expect(drawDeviation(tokens.map(({ logprob }) => ({ logprob })))).toBeUndefined()
  const single = tokens.map((token) => ({
    ...token,
    top_logprobs: token.top_logprobs.slice(0, 18),
  }))
  expect(drawDeviation(single)).toBeUndefined()
  expect(drawDeviation(tokens)).toBeTypeOf('number')
})
