import { expect, test } from 'vitest'

import { leftOpen } from './ended-worker.ts'

test.each([
  ['it looks for rollouts', 'look', 1],
  ['it claims the first', 'claim', 1],
  ['it claims others', 'claim', 5],
  ['the first model call is made', 'model call', 1],
  ['others are made', 'model call', 9],
  ['the first reward is reported', 'reward', 1],
  ['others are reported', 'reward', 4],
  ['the first end is reported', 'end', 1],
  ['others are reported', 'end', 4],
])(
  'a worker that is stopped when %s (%s %i) leaves no rollout open',
  async (_when, purpose, count) => {
    expect(await leftOpen(purpose, count, ['reset', 'lost answer', 503])).toEqual([])
  },
)
