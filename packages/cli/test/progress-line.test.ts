import { expect, it } from 'vitest'

import { madeEvent } from '../../../test/kit/index.ts'
import { ProgressLine } from '../src/eval/run/run-output.ts'

it('a run that waits for its policy says so, once for all calls that do', () => {
  let printed = ''
  const output = { write: (text: string) => (printed += text) }
  const progress = new ProgressLine(output, {
    passThreshold: 1,
    scoreName: undefined,
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
  const progress = new ProgressLine(output, { passThreshold: 1, scoreName: undefined, earlier })
  const item = madeEvent(2, 0, { reward: 0 })
  progress.update({ done: 3, total: 3, item, inFlight: { limit: 1, max: 1 } })
  expect(printed).toMatch(/^3\/3 rollouts {2}50 % passed {2}/)
})
