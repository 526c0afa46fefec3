import { expect, test } from 'vitest'

import { leftOpen } from './ended-worker.ts'

test.each([
  ['it looks', 'look', 1],
  ['it claims the first', 'claim', 1],
  ['it claims others', 'claim', 5],
  ['the first model call is made', 'model call', 1],
  ['others are made', 'model call', 9],
  ['the first reward is told', 'reward', 1],
  ['others are told', 'reward', 4],
  ['the first end is told', 'end', 1],
  ['others are told', 'end', 4],
])(
  'a worker that is told to end when %s (%s %i) leaves nothing open',
  async (_when, purpose, count) => {
    expect(await leftOpen(purpose, count, ['reset', 'lost answer', 503])).toEqual([])
  },
)
