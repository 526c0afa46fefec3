import { expect, it } from 'vitest'

import { runWithin } from '../src/command/command-context.ts'
import { stepText, timeLeft } from '../src/train/run/training-text.ts'

const record = {
  step: 4,
  phase: 'policy_gradient',
  rollouts: { reward: 0.396, passRate: 0.1875, failed: 2, seconds: 3.5 },
  batch: { groups: 12, groupsWithSignal: 12 },
  update: { driftMean: 3e-6, entropy: 0.49, seconds: 1.9 },
  alarms: ['The policy hardly varies, and attempts will stop to differ: look at what it says.'],
} as never

it.each([60, 80, 120])(
  'a step fits a terminal of %i columns, its alarms included',
  async (columns) => {
    let text = ''
    await runWithin({ env: { COLUMNS: String(columns) } }, async () => {
      text = stepText(record, 'about 3 min left')
      return 0
    })
    const lines = text.split('\n')
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns)
    expect(lines[0]).toMatch(/^step {3}4 {2}reward 0\.396 {2}passed 18\.8 %/)
    expect(text.replaceAll(/\s+/g, ' ')).toContain('drift 3e-6 entropy 0.49')
  },
)

it('the time that is left is that of the last steps, without the start of the process', () => {
  const made = (...seconds: readonly number[]): never =>
    seconds.map((own, at) => ({
      step: at + 5,
      rollouts: { seconds: own },
      update: own === 0 ? null : { seconds: 1 },
    })) as never
  expect(timeLeft(made(), 9)).toBeUndefined()
  // A lone step is all that is known.
  expect(timeLeft(made(299), 7)).toBe('about 10 min 00 s left')
  expect(timeLeft(made(299, 29), 8)).toBe('about 1 min 00 s left')
  expect(timeLeft(made(299, 99, 19, 39, 29), 11)).toBe('about 1 min 00 s left')
  expect(timeLeft(made(299, 29), 6)).toBeUndefined()
})

it('a step that was sampled by earlier versions alone says that its drift was not measured', () => {
  const stale = { ...(record as object), update: { driftMean: null, entropy: 0.5, seconds: 1 } }
  expect(stepText(stale as never).replaceAll(/\s+/g, ' ')).toContain('drift not measured entropy')
  expect(stepText({ ...stale, phase: 'warm_start' } as never)).not.toContain('drift')
})
