import { trainingSettings } from '@osmosis/eval/analysis'
import { defaultUpdate } from '@osmosis/train'
import { expect, it } from 'vitest'

it('the defaults of updates are those that reports leave out', () => {
  const standards = Object.values(trainingSettings).flatMap(({ of, option, standard }) =>
    of === 'update' ? [[option, standard] as const] : [],
  )
  expect(standards.length).toBeGreaterThan(5)
  expect(defaultUpdate).toMatchObject(Object.fromEntries(standards))
})
