import { measureRollouts, trainingSeries } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

import { madeEvent, madeStep } from '../../../../test/kit/index.ts'
import { manifestOf } from './runs.ts'

it('what graders set besides rewards is a mean over the rollouts that have it', () => {
  const events = [
    madeEvent(0, 0, { metrics: { words: 3, polite: 1 } }),
    madeEvent(0, 1, { metrics: { words: 5 } }),
    madeEvent(1, 0, { metrics: {}, status: 'failed', reward: null }),
    madeEvent(1, 1, { metrics: { words: 100, loud: 1 }, status: 'skipped', reward: null }),
  ]
  const { figures } = measureRollouts(manifestOf(2), events, 1)
  expect(figures.metrics).toEqual({ polite: 1, words: 4 })
  const without = [madeEvent(0, 0, { metrics: {} })]
  expect(measureRollouts(manifestOf(1), without, 1).figures).not.toHaveProperty('metrics')
})

it('each is a curve of the training, over the steps that have it', () => {
  const steps = [
    madeStep(1, { rollouts: { metrics: { words: 4 } } }),
    madeStep(2),
    madeStep(3, { rollouts: { metrics: { words: 6, polite: 0.5 } } }),
  ]
  const curves = trainingSeries(steps).filter(({ key }) => key.startsWith('metric:'))
  const shown = curves.map(({ key, label, points }) => [
    key,
    label,
    points.map(({ step, value }) => [step, value]),
  ])
  expect(shown).toEqual([
    ['metric:polite', 'Metric polite', [[3, 0.5]]],
    [
      'metric:words',
      'Metric words',
      [
        [1, 4],
        [3, 6],
      ],
    ],
  ])
})
