import type { TrainableSample } from '@osmosis/train'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { rejectionBatch } from '../src/batch/training-batch.ts'

/** An attempt with one answer of so many tokens. */
function sample(row: number, attempt: number, reward: number, tokens: number): TrainableSample {
  const ids = Array.from({ length: tokens + 1 }, (_, at) => at)
  return {
    rolloutId: `r${row}-${attempt}`,
    sampleId: 'main',
    row,
    reward,
    sequences: [
      {
        ids,
        logprobs: ids.map(() => -1),
        answers: [{ call: 0, start: 1, end: tokens + 1, version: null }],
        temperature: 1,
      },
    ],
    withoutIds: 0,
    untrainable: 0,
  }
}

const samples = fc
  .array(
    fc.record({
      row: fc.nat(4),
      reward: fc.integer({ min: -4, max: 4 }).map((quarters) => quarters / 4),
      tokens: fc.integer({ min: 1, max: 3 }),
    }),
    { maxLength: 12 },
  )
  .map((all) => all.map(({ row, reward, tokens }, at) => sample(row, at, reward, tokens)))

it('a warm start imitates each attempt that reaches the threshold, and counts the rows that have one', () => {
  const thresholds = fc.integer({ min: -4, max: 4 }).map((quarters) => quarters / 4)
  fc.assert(
    fc.property(samples, thresholds, (all, threshold) => {
      const { batch, counts } = rejectionBatch(all, { version: 0, threshold })
      const good = all.filter(({ reward }) => reward >= threshold)
      expect(batch.loss).toBe('cross_entropy')
      const imitated = batch.sequences.map(({ rolloutId }) => rolloutId)
      expect(imitated.toSorted()).toEqual(good.map(({ rolloutId }) => rolloutId).toSorted())
      for (const { advantages, mask } of batch.sequences) expect(advantages).toEqual(mask)
      const tokens = good.flatMap(({ sequences }) => sequences.map(({ ids }) => ids.length - 1))
      expect(counts).toMatchObject({
        groups: new Set(all.map(({ row }) => row)).size,
        groupsWithSignal: new Set(good.map(({ row }) => row)).size,
        sequences: good.length,
        tokens: tokens.reduce((sum, count) => sum + count, 0),
      })
    }),
  )
})
