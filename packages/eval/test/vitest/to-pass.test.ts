import path from 'node:path'

// oxlint-disable-next-line import/no-unassigned-import -- it adds the matcher
import '@osmosis/eval/vitest'
import { openRun, toScorer, type EvaluationResult } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { evaluate, placeOf } from '../evaluations.ts'
import { failedWorkflow, rewarded, rolloutResult, sample } from '../rollout-results.ts'
import { newRun } from '../stored-evaluations.ts'

/** What an assertion that must fail says. */
function failureOf(assertion: () => void): string {
  try {
    assertion()
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('expected the assertion to fail')
}

/** An evaluation of ten rows, two attempts each: the first three rows fail their second attempt. */
async function mixed(): Promise<EvaluationResult> {
  return evaluate(
    10,
    (order) => {
      const place = placeOf(order)
      if (place === '0/1') return failedWorkflow('no \u001B[31morders\nat all')
      return rewarded(place === '1/1' || place === '2/1' ? 0.25 : 1)
    },
    { n: 2 },
  )
}

describe('expect(run).toPass', () => {
  it('says the rate, its interval, and what did not pass', async () => {
    const run = await mixed()
    const [head, count, ...rest] = failureOf(() => expect(run).toPass({ rate: 0.9 })).split('\n')
    expect(head).toBe('multiply-1: 85.0 % passed, expected at least 90.0 %')
    expect(count).toMatch(/^17 of 20 rollouts; 95 % confidence over 10 rows: 67\.\d to 100\.0 %$/)
    expect(rest).toEqual([
      '',
      '3 rollouts did not pass:',
      '  0.2  agent_error: no orders at all',
      '  1.2  reward 0.25, and 1 passes',
      '  2.2  reward 0.25, and 1 passes',
      'Without a store the conversations are gone: pass one to runEvaluation to read them.',
    ])
    expect(failureOf(() => expect(run).not.toPass({ rate: 0.5 }))).toMatch(
      /^multiply-1: 85\.0 % passed, expected less than 50\.0 %\n17 of 20 rollouts/,
    )
  })

  it('names the commands that show the conversations of a stored run, also when it is opened later', async () => {
    const store = await newRun(await temporaryFolder(), 12)
    const run = await evaluate(12, () => rewarded(0), { store })
    const ofResult = failureOf(() => expect(run).toPass({ rate: 0.5 }))
    const shown = path.relative('', store.location)
    const folder = shown.startsWith('..') ? store.location : shown
    expect(ofResult).toContain(`\n    npx osmosis eval show ${folder} 9.1\n  and 2 more`)
    const opened = await openRun(store.location)
    const ofReader = failureOf(() => expect(opened).toPass({ rate: 0.5 }))
    expect(ofReader.split('\n').slice(1)).toEqual(ofResult.split('\n').slice(1))
    expect(opened).toPass({ rate: 0 })
  })

  it('never accepts an evaluation that is incomplete', async () => {
    const stopped = new AbortController()
    const run = await evaluate(
      3,
      (order) => {
        if (placeOf(order) === '1/0') stopped.abort(new Error('the lights went out'))
        return rewarded(1)
      },
      { signal: stopped.signal },
    )
    const message =
      /^multiply-1 is incomplete, \d rollouts? did not run to the end: the lights went out$/
    expect(failureOf(() => expect(run).toPass({ rate: 0 }))).toMatch(message)
    expect(failureOf(() => expect(run).not.toPass({ rate: 1 }))).toMatch(message)

    const store = await newRun(await temporaryFolder(), 2)
    const opened = await openRun(store.location)
    expect(failureOf(() => expect(opened).toPass({ rate: 0 }))).toBe(
      'r is incomplete, 2 rollouts did not run to the end',
    )
  })

  it('does not pass without a rollout whose samples stay in training', async () => {
    const removed = rolloutResult({ samples: new Map([sample('main', { removeSample: true })]) })
    const none = await evaluate(2, () => removed)
    const message = 'multiply-1 has no rollout that counts: the grader removed all samples.'
    expect(failureOf(() => expect(none).toPass({ rate: 0 }))).toBe(message)
    expect(failureOf(() => expect(none).not.toPass({ rate: 1 }))).toBe(message)
  })

  it('judges by the first score where there are no rewards, and by the threshold of the run', async () => {
    const ungraded = rolloutResult({ samples: new Map([sample('main')]) })
    let scored = 0
    const half = toScorer('half', () => {
      scored += 1
      if (scored === 1) throw new Error('no number')
      return 0.5
    })
    const scorers = [half]
    const run = await evaluate(2, () => ungraded, { scorers, passThreshold: 0.5 })
    expect(run).toPass({ rate: 0.5 })
    expect(failureOf(() => expect(run).toPass({ rate: 1 }))).toContain(
      '  0.1  no half: no number\n',
    )
  })

  it('says what it expects', async () => {
    const run = evaluate(1, () => rewarded(1))
    expect(failureOf(() => expect(run).toPass({ rate: 1 }))).toBe(
      'toPass expects what runEvaluation or openRun resolves with, got a promise: await it.',
    )
    expect(failureOf(() => expect(0.9).toPass({ rate: 1 }))).toMatch(/got number\.$/)
    const ended = await run
    expect(failureOf(() => expect(ended).toPass({ rate: 80 }))).toBe(
      'rate must be a fraction from 0 to 1, such as 0.8, got 80.',
    )
    await expect(evaluate(1, () => rewarded(1))).resolves.toPass({ rate: 1 })
  })
})
