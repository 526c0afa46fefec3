import { evaluationSummary, measuredPasses } from '@osmosis/eval'
import {
  alarmsOf,
  behaviourChange,
  compareRuns,
  type ItemEvent,
  measureRollouts,
  reportFigures,
  type RunRow,
  runStatistics,
  RunTable,
  type SeriesKey,
  type StepRecord,
  toRunDocument,
  type TrainingRecord,
  trainingSeries,
} from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { madeEvent, madeStep } from '../../../../test/kit/index.ts'
import { eventsOf, manifestOf } from './runs.ts'

// What figures and alarms mean, worked out from the rollouts once more, as plainly as possible.

/** Student's t of a two-sided interval of 95 %, by degrees of freedom, from a printed table. */
const printedT: Readonly<Record<number, number>> = {
  1: 12.7062047,
  2: 4.3026527,
  3: 3.1824463,
  4: 2.7764451,
  9: 2.2621572,
  11: 2.2009852,
  15: 2.1314495,
  19: 2.0930241,
  24: 2.0638986,
}

function sum(values: readonly number[]): number {
  let total = 0
  for (const value of values) total += value
  return total
}

/** About this number. */
function near(value: number): unknown {
  return expect.closeTo(value)
}

const rollout = fc.record({
  status: fc.constantFrom<ItemEvent['status'][]>(
    'success',
    'success',
    'success',
    'failed',
    'skipped',
  ),
  given: fc.constantFrom(0, 0.25, 0.5, 1),
  answers: fc.array(fc.constantFrom('stop', 'length', 'tool_calls'), { maxLength: 5 }),
  written: fc.option(fc.nat(900)),
  read: fc.nat(9000),
  tools: fc.nat(4),
})
const attemptsAtRows = fc.array(fc.array(rollout, { minLength: 1, maxLength: 4 }), {
  minLength: 1,
  maxLength: 5,
})

/** The rollouts of rows, as a run stores them. */
function storedAs(
  rows: readonly (readonly (typeof rollout extends fc.Arbitrary<infer R> ? R : never)[])[],
): ItemEvent[] {
  return rows.flatMap((attempts, row) =>
    attempts.map(({ status, given, answers, written, read, tools }, attempt) =>
      madeEvent(row, attempt, {
        status,
        reward: status === 'success' ? given : null,
        calls: answers.length,
        finish: Object.fromEntries(
          answers.map((end) => [end, answers.filter((other) => other === end).length]),
        ),
        completion_tokens: written,
        prompt_tokens: written === null ? null : read,
        tokens: written === null ? null : written + read,
        tool_calls: tools,
        error_type: status === 'failed' ? 'timeout' : null,
        error_message: status === 'failed' ? 'slow' : null,
      }),
    ),
  )
}

describe('the figures of a step', () => {
  it('are those of its rollouts, counted one by one', () => {
    fc.assert(
      fc.property(attemptsAtRows, fc.constantFrom(0.5, 1), (rows, threshold) => {
        const all = rows.flat()
        const manifest = manifestOf(rows.length, { threshold })
        const measured = measureRollouts(manifest, storedAs(rows), 7)
        const answers = all.flatMap(({ answers: ends }) => ends)
        const kept = all.filter(({ status }) => status !== 'skipped')
        const rewards = kept.flatMap(({ status, given }) => (status === 'success' ? [given] : []))
        expect(measured.figures).toMatchObject({
          rollouts: all.length,
          failed: all.filter(({ status }) => status === 'failed').length,
          answerTokens: expect.closeTo(sum(all.map(({ written }) => written ?? 0)) / all.length),
          toolCalls: expect.closeTo(sum(all.map(({ tools }) => tools)) / all.length),
          cutOff: expect.closeTo(
            answers.filter((end) => end === 'length').length / Math.max(1, answers.length),
          ),
          reward: rewards.length === 0 ? null : near(sum(rewards) / rewards.length),
          passRate: expect.closeTo(
            rewards.filter((reward) => reward >= threshold).length / Math.max(1, kept.length),
          ),
          seconds: 7,
        })
        const settled = rows.flatMap((attempts, row) => {
          const given = attempts.filter(({ status }) => status === 'success')
          return new Set(given.map((attempt) => attempt.given)).size > 1 ? [] : [row]
        })
        expect(measured.settledRows).toEqual(settled)
        expect(measured.rows).toEqual(rows.map((_, row) => row))
      }),
    )
  })

  it('have an interval of 95 % that treats each row as one observation', () => {
    const rewards = fc.array(
      fc.array(fc.constantFrom(0.3, 0.4, 0.5, 0.6), { minLength: 1, maxLength: 3 }),
      {
        minLength: 2,
        maxLength: 5,
      },
    )
    fc.assert(
      fc.property(rewards, (rows) => {
        const { figures } = measureRollouts(manifestOf(rows.length), eventsOf(rows), 1)
        const mean = sum(rows.flat()) / rows.flat().length
        const squares = sum(rows.map((row) => sum(row.map((reward) => reward - mean)) ** 2))
        const error = Math.sqrt((rows.length / (rows.length - 1)) * squares) / rows.flat().length
        fc.pre(error > 1e-9)
        const half = error * (printedT[rows.length - 1] ?? 0)
        expect(figures.rewardFrom).toBeCloseTo(Math.max(0, mean - half), 6)
        expect(figures.rewardTo).toBeCloseTo(Math.min(1, mean + half), 6)
      }),
    )
  })
})

describe('the figures of a run', () => {
  it('count what the policy wrote and what it read apart', () => {
    fc.assert(
      fc.property(attemptsAtRows, (rows) => {
        const table = new RunTable(toRunDocument(manifestOf(rows.length), storedAs(rows)))
        const statistics = runStatistics(table)
        const kept = rows.flat().filter(({ status }) => status !== 'skipped')
        const known = kept.filter(({ written }) => written !== null)
        const meanOf = (values: readonly number[]): unknown =>
          values.length === 0 ? null : near(sum(values) / values.length)
        const written = meanOf(known.map((one) => one.written ?? 0))
        const { behaviour } = statistics
        expect(behaviour.completion_tokens.mean.value).toEqual(written)
        expect(behaviour.prompt_tokens.mean.value).toEqual(meanOf(known.map(({ read }) => read)))
        expect(behaviour.calls.mean.value).toEqual(
          meanOf(kept.map(({ answers }) => answers.length)),
        )
        expect(behaviour.tool_calls.mean.value).toEqual(meanOf(kept.map(({ tools }) => tools)))
        const cut = kept.filter(({ answers }) => answers.includes('length'))
        expect(behaviour.cut_off.items).toBe(cut.length)
        expect(behaviour.cut_off.value ?? 0).toBeCloseTo(cut.length / Math.max(1, kept.length))
        const figure = reportFigures(table, statistics).find(({ key }) => key === 'tokens')
        expect(figure?.value ?? null).toEqual(written)
        if (figure === undefined) return
        const everything = rows.flat().filter((one) => one.written !== null)
        const [wrote, read] = [
          sum(everything.map((one) => one.written ?? 0)),
          sum(everything.map((one) => one.read)),
        ].map((count) => count.toLocaleString('en-US'))
        expect(figure.notes).toContain(`${wrote} written and ${read} read in all`)
      }),
    )
  })

  it('have no metric of a rollout that was removed from all of them', () => {
    const events = [
      madeEvent(0, 0, { metrics: { words: 3, polite: 1 } }),
      madeEvent(0, 1, { metrics: { words: 5 } }),
      madeEvent(0, 2, { status: 'skipped', reward: null, metrics: { words: 100, polite: 0 } }),
    ]
    const table = new RunTable(toRunDocument(manifestOf(1, { n: 3 }), events))
    const figures = reportFigures(table, runStatistics(table))
    expect(figures.find(({ key }) => key === 'metrics')?.notes).toEqual([
      'words 4, polite 1 (of 1)',
    ])
  })
})

describe('figures of attempts', () => {
  /** All ways to choose so many of a list, one after the other. */
  function choices<T>(list: readonly T[], size: number): T[][] {
    if (size === 0) return [[]]
    return list.flatMap((one, at) =>
      choices(list.slice(at + 1), size - 1).map((others) => [one, ...others]),
    )
  }

  function meanOf(values: readonly number[]): number | null {
    return values.length === 0 ? null : sum(values) / values.length
  }

  /** Where there is a value, about the same one. */
  function nearOrNull(value: number | null): unknown {
    return value === null ? null : near(value)
  }

  it('are those of all draws of so many attempts, one by one', () => {
    fc.assert(
      fc.property(attemptsAtRows, fc.constantFrom(0.5, 1), (rows, threshold) => {
        const manifest = manifestOf(rows.length, { threshold })
        const { stats, groups } = runStatistics(
          new RunTable(toRunDocument(manifest, storedAs(rows))),
        )
        const kept = rows
          .map((row) => row.filter(({ status }) => status !== 'skipped'))
          .map((row) => row.map(({ status, given }) => (status === 'success' ? given : null)))
        const isPass = (value: number | null): boolean => value !== null && value >= threshold
        const drawn = (k: number, holds: (draw: (number | null)[]) => boolean): number | null =>
          meanOf(
            kept
              .filter((row) => row.length >= k)
              .map((row) => choices(row, k).map((draw) => (holds(draw) ? 1 : 0)))
              .map((held) => sum(held) / held.length),
          )
        const differ = (draw: readonly (number | null)[]): boolean =>
          new Set(draw.filter((value) => value !== null)).size > 1
        for (const [at, k] of [1, 2, 4].entries()) {
          expect(stats.pass_at_k[at]?.k).toBe(k)
          expect(stats.pass_at_k[at]?.value).toEqual(nearOrNull(drawn(k, (d) => d.some(isPass))))
          expect(stats.pass_hat_k[at]?.value).toEqual(nearOrNull(drawn(k, (d) => d.every(isPass))))
        }
        for (const [at, size] of [2, 4].entries()) {
          expect(stats.gradient_at[at]?.value).toEqual(nearOrNull(drawn(size, differ)))
        }
        const tried = kept.filter((row) => row.length >= 2)
        const share = meanOf(tried.map((row) => (differ(row) ? 1 : 0)))
        expect(stats.gradient.value).toEqual(nearOrNull(share))
        const always = tried.filter((row) => !differ(row) && row.every(isPass))
        const never = tried.filter((row) => !differ(row) && row.every((value) => (value ?? 0) <= 0))
        expect(groups).toEqual({
          rows: rows.length,
          signal: tried.filter(differ).length,
          always: always.length,
          never: never.length,
          flat: tried.length - tried.filter(differ).length - always.length - never.length,
        })
      }),
    )
  })

  it('are the same in the summary of a run, over what ended', () => {
    fc.assert(
      fc.property(attemptsAtRows, fc.constantFrom(0.5, 1), (rows, passThreshold) => {
        const all = rows.flat()
        const kept = all.filter(({ status }) => status !== 'skipped')
        const rewards = kept.flatMap(({ status, given }) => (status === 'success' ? [given] : []))
        const failed = all.filter(({ status }) => status === 'failed').length
        const passed = rewards.filter((reward) => reward >= passThreshold).length
        const [wrote, read] = [
          sum(all.map(({ written }) => written ?? 0)),
          sum(all.map((one) => (one.written === null ? 0 : one.read))),
        ]
        const summary = evaluationSummary(storedAs(rows), { attempts: 4, passThreshold })
        expect(summary).toMatchObject({
          total_samples: all.length,
          completed_samples: kept.length,
          failed,
          skipped: all.length - kept.length,
          graded: rewards.length,
          passed,
          pass_rate: near(kept.length === 0 ? 0 : passed / kept.length),
          completion_tokens: wrote,
          prompt_tokens: read,
          tokens_used: wrote + read,
          failures: failed === 0 ? [] : [{ error_type: 'timeout', count: failed, example: 'slow' }],
        })
        expect(summary.reward_stats?.mean ?? null).toEqual(nearOrNull(meanOf(rewards)))
        expect(measuredPasses(summary).rate).toBe(summary.pass_rate)
      }),
    )
  })
})

describe('an alarm', () => {
  /** How each alarm begins, or what only it says. */
  const kinds = {
    failed: 'rollouts failed (limit 20 %)',
    drift: "The learner's logprobs differ",
    signal: 'groups has a signal',
    entropy: 'The entropy is',
    cut: 'of the answers were cut off (limit 20 %)',
    tools: 'The reward rose while tool calls per rollout fell',
    tokens: 'The reward rose while tokens per rollout fell',
  }
  type Kind = keyof typeof kinds

  function kindsOf(alarms: readonly string[]): Kind[] {
    return (Object.keys(kinds) as Kind[]).filter((kind) =>
      alarms.some((alarm) => alarm.includes(kinds[kind])),
    )
  }

  const figures = fc.record({
    failed: fc.constantFrom(0, 1, 2, 3, 5, 6, 10),
    drift: fc.constantFrom(null, 0, 1e-6, 0.049, 0.05, 0.051, 0.1, 0.29, 0.31, 2),
    entropy: fc.constantFrom(null, 0.009, 0.01, 0.011, 1),
    cutOff: fc.constantFrom(0, 0.1, 0.19, 0.2, 0.21, 0.5),
    signal: fc.constantFrom(0, 1, 4),
    groups: fc.constantFrom(0, 4),
  })

  it('is raised beyond its limit, which the documents name, and not at it', () => {
    fc.assert(
      fc.property(figures, ({ failed, drift, entropy, cutOff, signal, groups }) => {
        const step = madeStep(1, {
          rollouts: { rollouts: 10, failed, cutOff },
          batch: { ...madeStep(1).batch, groups, groupsWithSignal: Math.min(signal, groups) },
          update: { driftMean: drift, entropy },
          rows: [0, 1, 2, 3],
        })
        const expected: Kind[] = []
        if (failed / 10 > 0.2) expected.push('failed')
        if (drift !== null && drift > 0.05) expected.push('drift')
        if (groups > 0 && signal === 0 && failed / 10 <= 0.5) expected.push('signal')
        if (entropy !== null && entropy < 0.01) expected.push('entropy')
        if (cutOff > 0.2) expected.push('cut')
        const alarms = alarmsOf(step, [])
        expect(kindsOf(alarms)).toEqual(expected)
        expect(alarms).toHaveLength(expected.length)
      }),
      { numRuns: 500 },
    )
  })

  it('about drift names answers that were held to a form, because their logprobs are not the policy’s', () => {
    const alarmWith = (constrained: number | undefined): string => {
      const batch = { ...madeStep(1).batch, ...(constrained === undefined ? {} : { constrained }) }
      return alarmsOf(madeStep(1, { batch, update: { driftMean: 0.4 } }), []).join()
    }
    for (const none of [undefined, 0]) expect(alarmWith(none)).not.toContain('held to a form')
    expect(alarmWith(1)).toContain(' 1 answer was held to a form by the request')
    expect(alarmWith(7)).toContain(' 7 answers were held to a form by the request')
  })

  it('about hacking is raised when the reward rose and the work fell to less than a quarter', () => {
    const one = fc.record({
      reward: fc.constantFrom(0.1, 0.3, 0.5, 0.9),
      tools: fc.constantFrom(0, 0.5, 1, 2, 4, 8),
      tokens: fc.constantFrom(0, 10, 25, 26, 100, 400),
    })
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 9 }), (all) => {
        const steps = all.map(({ reward, tools, tokens }, at) =>
          madeStep(at + 1, { rollouts: { reward, toolCalls: tools, answerTokens: tokens } }),
        )
        const last = all.at(-1) as (typeof all)[number]
        const start = all.slice(0, 3)
        const before = (key: keyof typeof last): number => sum(start.map((step) => step[key])) / 3
        const expected: Kind[] = []
        // Three steps to compare with, and as many in between.
        if (all.length > 6 && last.reward > before('reward')) {
          if (last.tools < before('tools') / 4) expected.push('tools')
          if (last.tokens < before('tokens') / 4) expected.push('tokens')
        }
        const earlier = steps.slice(0, -1)
        expect(kindsOf(alarmsOf(steps.at(-1) as StepRecord, earlier))).toEqual(expected)
      }),
      { numRuns: 500 },
    )
  })
})

describe('the curves of a training', () => {
  it('have each value at its own step, and held-out rows behind the steps before them', () => {
    const record = fc.record({
      isStep: fc.boolean(),
      rollouts: fc.integer({ min: 1, max: 40 }),
      failed: fc.nat(40),
      reward: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      signal: fc.nat(5),
      groups: fc.constantFrom(0, 5),
      amount: fc.nat(500),
      hasUpdate: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(record, { maxLength: 12 }), (made) => {
        const records: TrainingRecord[] = []
        const expected: Record<string, [step: number, value: number][]> = {}
        const add = (key: SeriesKey, step: number, value: number | null): void => {
          if (value !== null) (expected[key] ??= []).push([step, value])
        }
        let steps = 0
        for (const one of made) {
          const { isStep, rollouts: count, reward, share, signal, groups, amount } = one
          const failed = one.failed % (count + 1)
          const rolloutFigures = {
            ...madeStep(1).rollouts,
            rollouts: count,
            failed,
            reward,
            passRate: share,
            cutOff: share / 2,
            answerTokens: amount,
            toolCalls: amount / 100,
            seconds: amount + 1,
          }
          if (!isStep) {
            const run = `evaluation-${steps}`
            const endedAt = '2026-01-02T03:04:05Z'
            const kind = 'evaluation'
            records.push({
              kind,
              run,
              step: steps,
              version: steps,
              rollouts: rolloutFigures,
              endedAt,
            })
            add('heldOutReward', steps, reward)
            add('heldOutPassRate', steps, share)
            continue
          }
          steps += 1
          const update = {
            driftMean: share / 10,
            entropy: share * 2,
            clipFraction: share / 3,
            seconds: 9,
          }
          const step = madeStep(steps, {
            rollouts: rolloutFigures,
            batch: {
              ...madeStep(1).batch,
              groups,
              groupsWithSignal: Math.min(signal, groups),
              age: share / 7,
            },
            update,
          })
          records.push(one.hasUpdate ? step : { ...step, update: null })
          add('reward', steps, reward)
          add('passRate', steps, share)
          add('signal', steps, groups === 0 ? null : Math.min(signal, groups) / groups)
          add('drift', steps, one.hasUpdate ? share / 10 : null)
          add('age', steps, share / 7)
          add('entropy', steps, one.hasUpdate ? share * 2 : null)
          add('clipped', steps, one.hasUpdate ? share / 3 : null)
          add('cutOff', steps, share / 2)
          add('failed', steps, failed / count)
          add('tokens', steps, amount)
          add('toolCalls', steps, amount / 100)
          add('rolloutSeconds', steps, amount + 1)
          add('updateSeconds', steps, one.hasUpdate ? 9 : null)
        }
        const series = trainingSeries(records).map(({ key, points }) => [
          key,
          points.map(({ step, value }) => [step, value]),
        ])
        // Without staleness there is nothing to show.
        if (expected['age']?.every(([, age]) => age === 0) === true) delete expected['age']
        expect(Object.fromEntries(series)).toEqual(expected)
      }),
    )
  })

  it('compare the first evaluation with the last one by shares of their own rollouts', () => {
    const evaluation = (step: number, rollouts: number, failed: number): TrainingRecord => {
      const rolloutFigures = { ...madeStep(1).rollouts, rollouts, failed }
      return { ...madeStep(step, { rollouts: rolloutFigures }), kind: 'evaluation' }
    }
    // 50 of 100 and 50 of 400.
    expect(behaviourChange([evaluation(0, 100, 50), evaluation(9, 400, 50)])).toContain(
      '13 % of the rollouts fail (before: 50 %)',
    )
  })
})

describe('a comparison', () => {
  it('says that a run is better or worse exactly where an interval of 95 % excludes no change', () => {
    const sizes = fc.constantFrom(10, 12, 16, 20, 25)
    const change = fc.integer({ min: -8, max: 8 })
    const made = sizes.chain((size) =>
      fc.tuple(
        fc.array(change, { minLength: size, maxLength: size }),
        fc.integer({ min: -4, max: 4 }),
      ),
    )
    const tones = new Set<string>()
    fc.assert(
      fc.property(made, ([noise, shift]) => {
        const changes = noise.map((value) => (value + shift) / 100)
        const count = changes.length
        const tableOf = (values: readonly number[]): RunTable =>
          new RunTable(toRunDocument(manifestOf(count), eventsOf(values.map((value) => [value]))))
        const before = tableOf(changes.map(() => 0.5))
        const after = tableOf(changes.map((value) => 0.5 + value))
        const mean = sum(changes) / count
        const deviation = Math.sqrt(sum(changes.map((value) => (value - mean) ** 2)) / (count - 1))
        const half = ((printedT[count - 1] ?? 0) * deviation) / Math.sqrt(count)
        fc.pre(deviation > 1e-6 && Math.abs(Math.abs(mean) - half) > 1e-9)
        const tone = Math.abs(mean) < half ? 'none' : mean > 0 ? 'better' : 'worse'
        tones.add(tone)
        const { verdict, difference } = compareRuns(before, after, { metric: 'reward' })
        expect([changes, verdict.tone]).toEqual([changes, tone])
        expect(difference.value).toBeCloseTo(mean, 9)
        expect(difference.ci95?.[0]).toBeCloseTo(mean - half, 6)
        expect(difference.ci95?.[1]).toBeCloseTo(mean + half, 6)
        const begin = { better: 'Better by', worse: 'Worse by', none: 'No significant difference' }
        expect(verdict.lead.startsWith(begin[tone])).toBe(true)
      }),
      { numRuns: 400 },
    )
    expect([...tones].toSorted()).toEqual(['better', 'none', 'worse'])
  })

  it('finds the rows of a facet by the row itself, wherever it lies in either run', () => {
    interface Made {
      readonly task: string
      readonly before: number
      readonly after: number
    }
    const row: fc.Arbitrary<Made> = fc.record({
      task: fc.constantFrom('refund', 'cancel', 'change'),
      before: fc.constantFrom(0, 1),
      after: fc.constantFrom(0, 1),
    })
    const made = fc
      .array(row, { minLength: 2, maxLength: 15 })
      .chain((rows) =>
        fc.tuple(
          fc.constant(rows),
          fc.shuffledSubarray([...rows.keys()], { minLength: rows.length }),
          fc.shuffledSubarray([...rows.keys()], { minLength: 1 }),
        ),
      )
    fc.assert(
      fc.property(made, ([rows, inA, inB]) => {
        const tableOf = (order: readonly number[], key: 'before' | 'after'): RunTable => {
          const ofRun = order.map((at, place): RunRow => {
            const facets = { task: rows[at]?.task ?? '' }
            return { key: `key-${at}`, source_row: place, facets }
          })
          const events = order.map((at, place) =>
            madeEvent(place, 0, { row_key: `key-${at}`, reward: rows[at]?.[key] ?? null }),
          )
          return new RunTable(toRunDocument(manifestOf(ofRun, { n: 1 }), events))
        }
        const { facets } = compareRuns(tableOf(inA, 'before'), tableOf(inB, 'after'), {
          by: 'task',
        })
        const shared = inB.flatMap((at) => rows[at] ?? [])
        const expected = Object.entries(Object.groupBy(shared, ({ task }) => task)).map(
          ([task, group = []]) => [
            task,
            group.length,
            near(sum(group.map(({ before, after }) => after - before)) / group.length),
          ],
        )
        const found = facets.map(({ value, difference }) => [
          value,
          difference.rows,
          difference.value,
        ])
        expect(found.toSorted((a, b) => String(a[0]).localeCompare(String(b[0])))).toEqual(
          expected.toSorted((a, b) => String(a[0]).localeCompare(String(b[0]))),
        )
      }),
    )
  })
})
