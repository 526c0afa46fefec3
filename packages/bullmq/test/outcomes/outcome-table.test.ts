import { describe } from 'vitest'

import { rowsOfQueue, testOutcomes } from './queue-outcomes.ts'

const samples = [
  'graded',
  'workflow threw',
  'cancelled over the wire',
  'workflow called process.exit',
]

testOutcomes(rowsOfQueue.filter(({ situation }) => samples.includes(situation)))

describe('all other outcomes', { tags: 'nightly' }, () => {
  testOutcomes(rowsOfQueue.filter(({ situation }) => !samples.includes(situation)))
})
