import {
  alarmGroups,
  alarmsOf,
  behaviourChange,
  measureRollouts,
  rowHistories,
  rowsByLearnedStep,
  rowVerdict,
  type StepFigures,
  type TrainingRecord,
} from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { madeEvent, madeStep } from '../../../../test/kit/index.ts'
import { eventsOf, manifestOf } from './runs.ts'

/** The alarms about a collapse, by step. */
function collapses(steps: readonly (readonly [reward: number | null, entropy: number | null])[]): {
  readonly [step: number]: string
} {
  const records = steps.map(([reward, entropy], at) =>
    madeStep(at + 1, { rollouts: { reward }, update: { entropy } }),
  )
  return Object.fromEntries(
    records.flatMap((record, at) =>
      alarmsOf(record, records.slice(0, at))
        .filter((alarm) => alarm.includes('collapses'))
        .map((alarm) => [record.step, alarm] as const),
    ),
  )
}

const good = [
  [0.4, 1],
  [0.6, 0.9],
  [0.8, 0.8],
  [0.8, 0.8],
] as const

it.each([
  ['its entropy rises far', 2.6, 'and the entropy rose from 0.83 to 2.60, '],
  ['its entropy falls far', 0.2, 'and the entropy fell from 0.83 to 0.20, '],
] as const)('a reward that falls while %s is called a collapse at once', (_, entropy, words) => {
  expect(collapses([...good, [0.2, entropy]])).toEqual({
    5: `The reward fell from 0.73 to 0.20 (limit: a loss of half), ${words}so the policy collapses: stop, lower lr or set kl, and continue from the best checkpoint.`,
  })
})

it('a training whose first rollouts all failed is compared with the first step that has rewards', () => {
  const steps = [
    [null, null],
    [0.8, 0.8],
    [0.2, 2.6],
  ] as const
  expect(collapses(steps)[3]).toContain('The reward fell from 0.80 to 0.20')
})

it('a reward that stays low is a collapse whatever is known of the entropy', () => {
  const low = [0.1, 0.1, 0.1, 0.1].map((reward) => [reward, null] as const)
  expect(Object.keys(collapses([...good, ...low]))).toEqual(['6', '7', '8'])
  expect(collapses([...good, ...low])[6]).toContain(
    'to 0.10 (limit: a loss of half), so the policy',
  )
  // Negative rewards can fall, too.
  const negative = [-1, -1, -1, -3, -3, -3].map((reward) => [reward, null] as const)
  expect(Object.keys(collapses(negative))).toEqual(['4', '5', '6'])
})

it('neither a better policy nor one bad step is a collapse', () => {
  expect(collapses([...good, [0.2, 0.8], [0.8, 0.7], [0.9, 0.3], [0.95, 0.1]])).toEqual({})
  // Steps without any reward are those of machines that failed.
  const failed = [null, null, null].map((reward) => [reward, 9] as const)
  expect(collapses([...good, ...failed, [0.8, 0.8]])).toEqual({})
  // The entropy falls as the reward rises.
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 0.3, noNaN: true })), (gains) => {
      let reward = 0
      const rising = gains.map((gain, at) => [(reward += gain), 2 / (at + 1) ** 2] as const)
      expect(collapses(rising)).toEqual({})
    }),
  )
})

it('intervals of rewards and of passes have only values that these can have', () => {
  const figuresOf = (...rows: (number | null)[][]): StepFigures =>
    measureRollouts(manifestOf(rows.length), eventsOf(rows), 1).figures
  const rewards = fc.oneof(
    fc.constantFrom(0, 1),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.constant(null),
  )
  const attempts = fc.array(rewards, { minLength: 2, maxLength: 4 })
  fc.assert(
    fc.property(fc.array(attempts, { minLength: 2 }), (rows) => {
      const { reward, rewardFrom, rewardTo, passRate, passFrom, passTo } = figuresOf(...rows)
      for (const [low, value, high] of [
        [rewardFrom, reward, rewardTo],
        [passFrom, passRate, passTo],
      ]) {
        const ordered = [0, low ?? value ?? 0, value ?? 0, high ?? value ?? 1, 1]
        expect(ordered).toEqual(ordered.toSorted((a, b) => a - b))
      }
    }),
  )
  expect(figuresOf([1, 1], [0, 1])).toMatchObject({ rewardFrom: 0, rewardTo: 1 })
  // Rewards beyond 1, or below 0, can be anything on that side.
  const beyond = figuresOf([5, 5], [0, 1])
  expect(beyond.rewardFrom).toBe(0)
  expect(beyond.rewardTo).toBeGreaterThan(5)
  const below = figuresOf([-1, -1], [1, 1])
  expect(below.rewardFrom).toBeLessThan(-1)
  expect(below.rewardTo).toBe(1)
})

/** Tokens and tool calls per rollout, shares of answers that are cut off and of rollouts that fail. */
type Behaviour = readonly [tokens: number, tools: number, cutOff: number, failed: number]

function behaved(
  kind: 'step' | 'evaluation',
  at: number,
  [answerTokens, toolCalls, cutOff, failed]: Behaviour,
  count = 200,
): TrainingRecord {
  const rollouts = { rollouts: count, answerTokens, toolCalls, cutOff, failed: count * failed }
  return { ...madeStep(at, { rollouts }), kind }
}

it.each<[before: Behaviour, now: Behaviour, text: string]>([
  [
    [48, 2, 0.14, 0],
    [21, 2.1, 0, 0.01],
    'it now writes 21 tokens per rollout instead of 48, calls tools as often, and no answer is cut off (before: 14 %).',
  ],
  [[48, 2, 0.14, 0], [47, 1.9, 0.1, 0.02], 'length, tool calls and endings are about the same.'],
  [[48, 0, 0, 0], [48, 0, 0, 0], 'length and endings are about the same.'],
  [[0, 0, 0, 0], [0, 0, 0, 0], 'endings are about the same.'],
  [
    [48, 0, 0, 0],
    [50, 0.4, 0, 0],
    'it now writes about as much and calls tools 0.40 times per rollout, which it did not before.',
  ],
  [
    [1200, 3, 0, 0.2],
    [4.2, 0, 0.5, 0.004],
    'it now writes 4.2 tokens per rollout instead of 1,200, calls no tools (before: 3.0 times per rollout), 50 % of the answers are cut off (before: none), and 0.4 % of the rollouts fail (before: 20 %).',
  ],
  [[0, 0, 0, 0.2], [0, 0, 0, 0], 'no rollout fails (before: 20 %).'],
])('a sentence says what the model does differently: %j, %j', (before, now, text) => {
  const between: Behaviour = [900, 9, 0.9, 0.9]
  const steps = [before, between, now].map((behaviour, at) => behaved('step', at + 1, behaviour))
  const [first, last] = [behaved('evaluation', 0, before), behaved('evaluation', 3, now)]
  const odd = behaved('evaluation', 2, between)
  expect(behaviourChange([first, ...steps.slice(0, 1), odd, last])).toBe(`On held-out rows ${text}`)
  // A training in progress has one evaluation, and those of other trainers have none.
  expect(behaviourChange([first, ...steps])).toBe(`In the latest step ${text}`)
  expect(behaviourChange([...steps.slice(0, 1), ...steps, ...steps.slice(-1)])).toBe(
    `In the latest steps ${text}`,
  )
  expect(behaviourChange([first, ...steps.slice(0, 1)])).toBeNull()
})

it('a share of few rollouts has to change by more than chance', () => {
  const changeOf = (count: number): string | null =>
    behaviourChange([
      behaved('evaluation', 0, [48, 0, 0, 0], count),
      behaved('evaluation', 3, [48, 0, 0.2, 0], count),
    ])
  expect(changeOf(16)).toBe('On held-out rows length and endings are about the same.')
  expect(changeOf(64)).toContain('20 % of the answers are cut off')
})

it('an alarm names its steps, its figures with their limits, and what to do', () => {
  /** Steps of which these had answers cut off; the last one had little entropy, too. */
  const alarms = (...cut: number[]): string[] => {
    const measured = Array.from({ length: 12 }, (_, at) => {
      const cutOff = cut.includes(at + 1) ? (at + 1) / 20 : 0
      return madeStep(at + 1, { rollouts: { cutOff }, update: { entropy: at === 11 ? 0.005 : 1 } })
    })
    const groups = alarmGroups(measured.map((step) => ({ ...step, alarms: alarmsOf(step, []) })))
    return groups.map(({ steps, text, newest }) => `${newest.run}: ${steps}: ${text}`)
  }
  const text =
    'of the answers were cut off (limit 20 %), so their rewards say little: raise max_response_length. A smaller max_tokens that the agent sets is code, and changed code is a new training: --fresh starts it.'
  const entropy =
    'step-0012: Step 12: The entropy is 0.0050 (limit 0.01): the policy hardly varies, and attempts will stop to differ. Lower lr.'
  expect(alarms()).toEqual([entropy])
  expect(alarms(6)).toEqual([entropy, `step-0006: Step 6: 30 % ${text}`])
  const figures = (step: number): string => ` (These are the figures of step ${step}.)`
  expect(alarms(5, 6, 7, 10)[1]).toBe(`step-0010: Steps 5–7, 10: 50 % ${text}${figures(10)}`)
  expect(alarms(5, 7, 8, 9, 11)[1]).toBe(`step-0011: Steps 5, 7–9, 11: 55 % ${text}${figures(11)}`)
  const steps = [1, 3, 5, 7, 9].map((step) => madeStep(step, { alarms: ['Look at it.'] }))
  expect(alarmGroups(steps)).toMatchObject([{ steps: '5 steps from 1 to 9', text: 'Look at it.' }])
})

it('many failed rollouts raise an alarm with their error, and the blame is not on equal rewards', () => {
  const errors = [
    ['timeout', 'slow', 'Raise agent_workflow_timeout_s or lower max_response_length.'],
    ['timeout', 'grader exceeded its 10s deadline', 'Raise grader_timeout_s.'],
    [
      'agent_error',
      'no\n  luck',
      'Mend that first; changed code is a new training, which --fresh starts.',
    ],
  ] as const
  const equal = expect.stringMatching(/^None of 2 groups has a signal/)
  const count = fc.integer({ min: 1, max: 40 })
  fc.assert(
    fc.property(
      fc.constantFrom(...errors),
      count,
      count,
      count,
      (error, most, less, successful) => {
        const others = less % most
        const [type, message, advice] = error
        const failure = { status: 'failed', error_type: type, error_message: message } as const
        const other = { ...failure, error_type: 'http_error' }
        const events = [
          ...Array.from({ length: others }, (_, at) => madeEvent(at, 0, other)),
          ...Array.from({ length: most }, (_, at) => madeEvent(at, 1, failure)),
          ...Array.from({ length: successful }, (_, at) => madeEvent(at, 2, {})),
        ]
        const { figures } = measureRollouts(manifestOf(40), events, 1)
        const step = { rollouts: figures, batch: { ...madeStep(1).batch, groupsWithSignal: 0 } }
        const share = (most + others) / events.length
        const why = `${most} with ${type} (${message.replace(/\s+/, ' ')}). ${advice}`
        const text = `${most + others} of ${events.length} rollouts failed (limit 20 %), and nothing is learned from them: ${why}`
        expect(alarmsOf(madeStep(1, step), [])).toEqual([
          ...(share > 0.2 ? [text] : []),
          ...(share > 0.5 ? [] : [equal]),
        ])
      },
    ),
  )
})

it('rows are in the order of the steps at which they were learned', () => {
  const drawn = [
    { 1: 0, 2: 4, 3: 4 },
    { 1: 4, 3: 3 },
    { 2: 4 },
    { 1: 0, 2: 4, 3: 2 },
    { 1: 1 },
    { 1: 2, 2: 3 },
  ]
  const steps = [1, 2, 3].map((step) => ({
    step,
    run: `step-${step}`,
    rows: drawn.flatMap((passes: Readonly<Record<number, number>>, row) => {
      const passed = passes[step]
      if (passed === undefined) return []
      return [{ row, question: '', facets: {}, mean: passed / 4, passed, ended: 4 }]
    }),
  }))
  const histories = rowHistories(steps)
  expect(
    rowsByLearnedStep(histories).map(({ step, learned, rows }) => [
      step,
      learned,
      ...rows.map(({ row }) => row),
    ]),
  ).toEqual([
    [1, 0, 1],
    [2, 2, 0, 5, 2],
    [null, 0, 3, 4],
  ])
  expect(histories.map(rowVerdict)).toEqual([
    'learned at step 2',
    'passes since step 1',
    '4 of 4 passed at step 2',
    'fell by 0.50 at step 3',
    '1 of 4 passed at step 1',
    'learned at step 2',
  ])
})
