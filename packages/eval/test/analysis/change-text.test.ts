import { behaviourTexts, changeText, type BehaviourChange } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

function difference(value: number, half: number | null): BehaviourChange['difference'] {
  const ci95 = half === null ? null : ([value - half, value + half] as const)
  return { value, ci95, rows: 20, detectable: null, better: 0, worse: 0, same: 0 }
}

it.each<
  [BehaviourChange['unit'], value: number, half: number | null, change: string, isSure: boolean]
>([
  ['share', 0.05, 0.0701, '+5.0 points ± 7.0', false],
  ['seconds', -1.9, 1.2, '−1.9 s ± 1.2 s', true],
  ['usd', 0.00421, null, '+$0.0042', false],
  ['usd', 120.456, null, '+$120.46', false],
  ['usd', 0.5, null, '+$0.50', false],
  ['usd', 0.0000004, null, '+$0.00000040', false],
  ['count', 120, 3.25, '+120 ± 3.3', true],
  ['share', 0, 0.1, '', false],
])('a change of behaviour has the unit of its values: %s', (unit, value, half, change, isSure) => {
  const changed = { unit, before: 1, after: 1 + value, difference: difference(value, half) }
  const texts = behaviourTexts({ key: 'stuck', title: 'Stuck', ...changed })
  expect(texts).toMatchObject({ change, isSure })
  const first = { share: '100.0 %', seconds: '1.0 s', usd: '$1.00', count: '1.0' }[unit]
  expect(texts.before).toBe(first)
})

it('a change of the pass rate is in points, one of rewards plain, and one of no rows empty', () => {
  expect(changeText(difference(-0.034, 0.0149), 'share')).toBe('−3.4 points ± 1.5')
  expect(changeText(difference(0.25, null), 'plain')).toBe('+0.25')
  expect(changeText({ value: null, ci95: null, rows: 0 }, 'share')).toBe('')
})
