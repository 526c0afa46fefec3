import { expect, it } from 'vitest'

import { madeEvent } from '../../../test/kit/index.ts'
import { ProgressLine } from '../src/eval/run/run-output.ts'

it('a run that waits for its policy says so, once for all calls that do', () => {
  let printed = ''
  const output = { write: (text: string) => (printed += text) }
  const progress = new ProgressLine(output, {
    passThreshold: 1,
    scoreNames: [],
    earlier: [],
  })
  progress.wait(500, 429)
  progress.wait(30_000, 429)
  progress.wait(30_000, 429)
  expect(printed).toBe('The policy limits the rate of calls (429): waiting 30.0 s.\n')
})

it('the share that passed leaves out what was removed from training, as reports do', () => {
  let printed = ''
  const output = { write: (text: string) => (printed += text) }
  const earlier = [madeEvent(0, 0), madeEvent(1, 0, { status: 'skipped', reward: null })]
  const progress = new ProgressLine(output, { passThreshold: 1, scoreNames: [], earlier })
  const item = madeEvent(2, 0, { reward: 0 })
  progress.update({ done: 3, total: 3, item, inFlight: { limit: 1, max: 1 } })
  expect(printed).toMatch(/^3\/3 rollouts {2}50 % passed {2}/)
})

it.each([
  ['rewards where there are any', [1, 0], [0, 0], '50 % passed  '],
  [
    'the first eval function that gave a score without rewards',
    [null, null],
    [1, 1],
    '100 % passed by two  ',
  ],
])('what passed is counted as in reports: by %s', (_, rewards, scores, text) => {
  let printed = ''
  const output = { write: (piece: string) => (printed += piece) }
  const [first, item] = rewards.map((reward, row) =>
    madeEvent(row, 0, {
      reward,
      scores: scores[row] === null ? {} : { two: scores[row] ?? 0 },
      // What eval functions scored has ended well, although its grader failed.
      error_type: 'grader_failed',
    }),
  )
  const earlier = first === undefined ? [] : [first]
  const progress = new ProgressLine(output, {
    passThreshold: 1,
    scoreNames: ['one', 'two'],
    earlier,
  })
  const inFlight = { limit: 1, max: 1 }
  if (item !== undefined) progress.update({ done: 2, total: 2, item, inFlight })
  expect(printed).toContain(`2/2 rollouts  ${text}`)
  expect(printed).not.toContain('failed')
})
