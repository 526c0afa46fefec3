import { alarmGroups, alarmsOf, areEqualRewards, measureRollouts } from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { madeEvent, madeStep } from '../../../../test/kit/index.ts'
import { manifestOf } from './runs.ts'

type Made = NonNullable<Parameters<typeof madeStep>[1]>

/** A step of a training of this SDK. */
function ownStep(step: number, made: Made = {}): ReturnType<typeof madeStep> {
  const settings = { normalizeAdvantages: true, maxStaleness: 0, maskCutAnswers: false, update: {} }
  return madeStep(step, { settings, ...made })
}

function groups(groupsWithSignal: number): Pick<Made, 'batch'> {
  return { batch: { ...madeStep(1).batch, groups: 16, groupsWithSignal } }
}

describe('a policy that collapses in its first steps', () => {
  const start = ownStep(1, { rollouts: { reward: 0.4, rewardFrom: 0.3 }, update: { entropy: 0.5 } })

  it.each([
    ['all attempts agree', { rollouts: { reward: 0 }, ...groups(0), update: {} }],
    ['its entropy rises', { rollouts: { reward: 0.1 }, update: { entropy: 8 } }],
    ['its entropy falls', { rollouts: { reward: 0.1 }, update: { entropy: 0.1 } }],
    ['its answers never end', { rollouts: { reward: 0, cutOff: 1 }, update: { entropy: 8 } }],
  ] as const)('is named at the second step where %s, and the cause alone', (_, made) => {
    const alarms = alarmsOf(ownStep(2, made), [start])
    expect(alarms).toHaveLength(1)
    expect(alarms[0]).toMatch(/^The reward fell from 0\.40 to 0\.\d\d .*collapses: stop, lower lr/)
    expect(alarms[0]).toContain('--steps 2 --export merged')
    expect(alarms[0]).not.toMatch(/other rows|harder rows|max_response_length/)
  })

  it('is named where its entropy is three times that of the first step and nothing is better', () => {
    const tried = ownStep(2, { rollouts: { reward: 0.4 }, update: { entropy: 1.6 } })
    expect(alarmsOf(tried, [start])).toEqual([
      expect.stringMatching(/^The entropy rose from 0\.50 in step 1 to 1\.60 \(limit: 3 times/),
    ])
    const better = ownStep(2, { rollouts: { reward: 0.5 }, update: { entropy: 1.6 } })
    expect(alarmsOf(better, [start])).toEqual([])
    const little = ownStep(2, { rollouts: { reward: 0.4 }, update: { entropy: 0.2 } })
    const low = ownStep(1, { rollouts: { reward: 0.4 }, update: { entropy: 0.05 } })
    expect(alarmsOf(little, [low])).toEqual([])
  })

  it('is measured by the evaluation before it, where its rows are as hard', () => {
    const evaluated = { ...start.rollouts, reward: 0.7, rewardFrom: 0.6 }
    const fell = ownStep(2, { rollouts: { reward: 0.25 }, update: { entropy: 8 } })
    expect(alarmsOf(fell, [start], evaluated)[0]).toContain('The reward fell from 0.70 to 0.25')
    expect(alarmsOf(fell, [start], { ...evaluated, reward: 0.9 })[0]).toContain('The entropy rose')
  })

  it('is not one where the first step could have been lucky', () => {
    const lucky = ownStep(1, {
      rollouts: { reward: 0.03, rewardFrom: 0 },
      update: { entropy: 0.5 },
    })
    const [alarm] = alarmsOf(ownStep(2, { rollouts: { reward: 0, passRate: 0 }, ...groups(0) }), [
      lucky,
    ])
    expect(alarm).toMatch(/^None of 16 groups has a signal/)
  })
})

describe('attempts that agree short of the goal', () => {
  /** At each row one attempt differs, or none; nobody passes. */
  function measured(
    rows: number,
    differing: number,
    answer: (row: number) => string,
  ): ReturnType<typeof measureRollouts> {
    const events = Array.from({ length: rows }, (_, row) =>
      [0, 1, 2].map((attempt) => {
        const isOdd = row < differing && attempt === 0
        return madeEvent(row, attempt, {
          reward: isOdd ? 0.4 : row % 2 === 0 ? 0.6 : 0.1 + 0.2 + 0.3,
          metrics: { name: 1, item: isOdd ? 0.5 : 0, price: attempt % 2 },
          summary: answer(row),
        })
      }),
    ).flat()
    return measureRollouts(manifestOf(rows), events, 1)
  }

  function alarmsFor(rows: number, differing: number): string[] {
    const { figures } = measured(rows, differing, (row) => `{"name": "a${row}"}`)
    const { batch } = groups(differing)
    return alarmsOf(ownStep(5, { rollouts: figures, batch: { ...madeStep(1).batch, ...batch } }), [
      ownStep(1, { phase: 'warm_start' }),
    ])
  }

  it('are named with their reward, what they lack and what one of them wrote', () => {
    const [alarm = '', ...others] = alarmsFor(16, 5)
    expect(others).toEqual([])
    expect(alarm).toContain('The attempts at 11 of 16 rows had equal rewards (limit: half of')
    expect(alarm).toContain(
      'At 11 rows all attempts got 0.60, with 0 for item; one of them wrote "{\\"name\\": \\"a5\\"}".',
    )
    expect(alarm).toMatch(/Raise rollout_temperature or --n, .*reward what these attempts lack\./)
    // One of the steps was that of a warm start.
    expect(alarm).toContain('--steps 4 --export merged ends this one')
  })

  it('are not named where half of the rows differ, some pass, or another trainer has no flags', () => {
    expect(alarmsFor(16, 8)).toEqual([])
    expect(alarmsFor(16, 7)).toHaveLength(1)
    const passing = ownStep(2, { rollouts: { passRate: 0.02 }, ...groups(3) })
    expect(alarmsOf(passing, [])).toEqual([])
    const other = madeStep(2, { rollouts: { passRate: 0 }, ...groups(3) })
    expect(alarmsOf(other, [])[0]).toMatch(/Other rows and another reward are a new training\.$/)
  })

  it('are one alarm in all steps, whatever was written', () => {
    const steps = [1, 2, 3].map((step) => {
      const { figures } = measured(16, 5, () => `"${'\\'.repeat(step)}" of step ${step}`)
      const made = ownStep(step, { rollouts: figures, ...groups(5) })
      return { ...made, alarms: alarmsOf(made, []) }
    })
    expect(alarmGroups(steps)).toHaveLength(1)
  })
})

it('rewards that differ by rounding alone are equal, whatever their size', () => {
  expect(areEqualRewards([0.1 + 0.2, 0.3])).toBe(true)
  expect(areEqualRewards([])).toBe(true)
  const size = fc.constantFrom(1e-6, 0.3, 1, 1000, 1e9)
  fc.assert(
    fc.property(size, fc.integer({ min: -3, max: 3 }), (value, steps) => {
      expect(areEqualRewards([value, value * (1 + steps * Number.EPSILON)])).toBe(true)
      expect(areEqualRewards([-value, value, -value])).toBe(false)
      expect(areEqualRewards([value, value * 1.001])).toBe(false)
    }),
  )
})

it('a figure that fell never looks as if it had not', () => {
  const early = [1, 2, 3, 4, 5, 6].map((step) =>
    ownStep(step, { rollouts: { reward: 0.1, toolCalls: 0.04, answerTokens: 0.4 } }),
  )
  const rare = ownStep(7, { rollouts: { reward: 0.9, toolCalls: 0.001, answerTokens: 0.05 } })
  const alarms = alarmsOf(rare, early)
  expect(alarms).toEqual([expect.stringContaining('tokens per rollout fell from 0.40 to 0.05')])
  const tiny = [1, 2, 3].map((step) => ownStep(step, { rollouts: { reward: 0.004 } }))
  const fell = ownStep(4, { rollouts: { reward: 0.001 }, update: { entropy: 9 } })
  expect(alarmsOf(fell, tiny)[0]).toContain('The reward fell from 0.0040 to 0.0010')
})

it('rollouts whose context was full raise an alarm that names the keys', () => {
  const figuresOf = (full: number): ReturnType<typeof measureRollouts>['figures'] =>
    measureRollouts(
      manifestOf(4),
      Array.from({ length: 8 }, (_, at) =>
        madeEvent(at % 4, at < 4 ? 0 : 1, {
          reward: at % 3,
          ...(at < full ? { limit: 'context' } : { limit: 'modelCalls' }),
        }),
      ),
      1,
    ).figures
  expect(alarmsOf(ownStep(1, { rollouts: figuresOf(1) }), [])).toEqual([])
  expect(alarmsOf(ownStep(1, { rollouts: figuresOf(3) }), [])).toEqual([
    '38 % of the rollouts ended because their context was full (limit 20 %): raise max_prompt_length, or --max-length where it is set.',
  ])
})
