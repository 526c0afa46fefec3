import { bestRun, rewardsByVersion, type TrainingRecord } from '@osmosis/eval/analysis'
import { expect, test } from 'vitest'

import { madeStep } from '../../../../test/kit/index.ts'

const step = (number: number, reward: number | null, sampledBy = number - 1): TrainingRecord =>
  madeStep(number, { sampledBy, rollouts: { reward } })

const evaluation = (run: string, version: number, reward: number | null): TrainingRecord => ({
  kind: 'evaluation',
  run,
  step: version,
  version,
  rollouts: { ...madeStep(1).rollouts, reward },
  endedAt: '2026-11-20T09:00:00.000Z',
})

test.each<[name: string, records: readonly TrainingRecord[], best: string | undefined]>([
  ['the highest', [step(1, 0.2), step(2, 0.7), step(3, 0.5)], 'step-0002'],
  ['the first of equal ones', [step(1, 0.7), step(2, 0.7)], 'step-0001'],
  [
    'by the mean of the steps that a version answered',
    [step(1, 0.5), step(2, 0.9, 1), step(3, 0.2, 1), step(4, 0.6, 2)],
    'step-0004',
  ],
  [
    'on held-out rows where there are any',
    [evaluation('before', 0, 0.3), step(1, 0.9), evaluation('after-step-0001', 1, 0.4)],
    'after-step-0001',
  ],
  ['without rewards none', [step(1, null), step(2, null)], undefined],
  ['of one none', [step(1, 0.4)], undefined],
])('the run of the best policy: %s', (_, records, best) => {
  expect(bestRun(records)).toBe(best)
})

test('a version without a reward has none', () => {
  const steps = [
    madeStep(1, { rollouts: { reward: null } }),
    madeStep(2, { rollouts: { reward: 1 } }),
  ]
  expect([...rewardsByVersion({ steps, evaluations: [] })]).toEqual([[1, 1]])
})
