import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'

import { expect } from 'vitest'

import {
  formatCount,
  formatQuantity,
  formatReward,
  formatShare,
} from '../analysis/figures/number-text.ts'
import { passRate } from '../analysis/figures/reward-figures.ts'
import {
  type EvaluationSummary,
  evaluationSummary,
  measuredPasses,
} from '../analysis/figures/run-metrics.ts'
import { type ItemEvent, rolloutName } from '../analysis/records/item-event.ts'
import type { Estimate } from '../analysis/statistics/estimate.ts'
import { attemptsByRow, countedItems, isPass, valueOf } from '../analysis/table/attempts.ts'
import type { EvaluationResult } from '../run/evaluation-state.ts'
import type { RunReader } from '../store/read/run-reader.ts'

declare module 'vitest' {
  // Vitest declares it with these parameters.
  interface Matchers<R, T> {
    /**
     * Asserts that an evaluation has ended and that at least a fraction of its rollouts passed.
     *
     * @throws TypeError when the value is neither what `runEvaluation` nor what `openRun` resolves with;
     * RangeError for a `rate` that is not a fraction
     */
    toPass(expected: PassExpectation): R
  }
}

expect.extend({
  toPass(received: unknown, expected: PassExpectation) {
    return toPass(received, expected, this.isNot)
  },
})

/** What `toPass` expects of an evaluation. */
export interface PassExpectation {
  /** The least fraction of rollouts that pass, from 0 to 1. A rollout that failed counts as not passed. */
  readonly rate: number
}

/** What is asserted about an evaluation. */
interface JudgedRun {
  readonly name: string
  /** Null without a store. */
  readonly location: string | null
  readonly summary: EvaluationSummary
  /** Without items whose samples were all removed from training. */
  readonly items: readonly ItemEvent[]
  /** Items that have not ended. */
  readonly pending: number
  readonly incompleteReason: string | null
}

/** How many rollouts a message names. */
const mostNamed = 10

/** Whether an evaluation passes, as a matcher of Vitest returns it. An incomplete one neither passes nor fails. */
function toPass(
  received: unknown,
  { rate }: PassExpectation,
  isNot: boolean,
): { readonly pass: boolean; readonly message: () => string } {
  if (!(rate >= 0 && rate <= 1)) {
    throw new RangeError(`rate must be a fraction from 0 to 1, such as 0.8, got ${rate}.`)
  }
  const run = judged(received)
  if (run.pending > 0) return { pass: isNot, message: () => incompleteText(run) }
  const { items, summary } = run
  const { measure } = measuredPasses(summary)
  const { pass_threshold: threshold } = summary
  const missed = items.filter((item) => !isPass(valueOf(item, measure), threshold))
  const estimate = passRate(attemptsByRow(items, measure, threshold))
  const { value } = estimate
  if (value === null) {
    return {
      pass: isNot,
      message: () => `${run.name} has no rollout that counts: the grader removed all samples.`,
    }
  }
  return {
    pass: value >= rate,
    message: () =>
      [
        `${run.name}: ${formatShare(value)} passed, expected ${isNot ? 'less than' : 'at least'} ${formatShare(rate)}`,
        countText(run, missed.length, estimate),
        ...(isNot || missed.length === 0 ? [] : missedLines(run, missed, measure)),
      ].join('\n'),
  }
}

function judged(received: unknown): JudgedRun {
  // Recognised by its fields: it may come from another copy of this package.
  const reader = (received ?? {}) as Partial<RunReader>
  if (reader.manifest !== undefined && reader.sortedEvents !== undefined)
    return judgedReader(received as RunReader)
  const { items, names, model } = (received ?? {}) as Partial<EvaluationResult>
  if (items === undefined || names === undefined || model === undefined) {
    const got = received instanceof Promise ? 'a promise: await it' : typeof received
    throw new TypeError(`toPass expects what runEvaluation or openRun resolves with, got ${got}.`)
  }
  const result = received as EvaluationResult
  return {
    name: names.run,
    location: result.location,
    summary: model.summary,
    items: countedItems(items),
    pending: result.pending,
    incompleteReason: result.incompleteReason,
  }
}

function judgedReader({ name, location, manifest, sortedEvents }: RunReader): JudgedRun {
  const { rows, n: attempts, pass_threshold: passThreshold, inputs } = manifest
  const options = { attempts, passThreshold, scoreNames: inputs.code.scorers }
  return {
    name,
    location,
    summary: evaluationSummary(sortedEvents, options),
    items: countedItems(sortedEvents),
    pending: rows.length * attempts - sortedEvents.length,
    incompleteReason: null,
  }
}

/** Intervals of fewer rows are too wide to be useful. */
const fewestRows = 5

/** `9 of 12 rollouts; 95 % confidence over 6 rows: 51.5 to 90.1 %`. */
function countText({ items }: JudgedRun, missed: number, { ci95, rows }: Estimate): string {
  const count = `${formatCount(items.length - missed)} of ${formatQuantity(items.length, 'rollout')}`
  if (ci95 === null || rows < fewestRows) return count
  // The formula can exceed the range of shares.
  const [low = '', high = ''] = ci95.map((end) => formatShare(Math.min(1, Math.max(0, end))))
  return `${count}; 95 % confidence over ${formatCount(rows)} rows: ${low.replace(' %', '')} to ${high}`
}

function incompleteText({ name, pending, incompleteReason }: JudgedRun): string {
  const why = incompleteReason === null ? '' : `: ${incompleteReason}`
  return `${name} is incomplete, ${formatQuantity(pending, 'rollout')} did not run to the end${why}`
}

/** What did not pass: why, and the command that shows its conversation. */
function missedLines(
  { location, summary }: JudgedRun,
  missed: readonly ItemEvent[],
  measure: string,
): string[] {
  return [
    '',
    `${formatQuantity(missed.length, 'rollout')} did not pass:`,
    ...missed.slice(0, mostNamed).flatMap((item) => {
      const name = rolloutName(item)
      return [
        `  ${name}  ${reasonOf(item, measure, summary.pass_threshold)}`,
        ...(location === null ? [] : [`    ${command(location, name)}`]),
      ]
    }),
    ...(missed.length > mostNamed ? [`  and ${formatCount(missed.length - mostNamed)} more`] : []),
    ...(location === null
      ? ['Without a store the conversations are gone: pass one to runEvaluation to read them.']
      : []),
  ]
}

/** `reward 0, and 1 passes: I do not know`; for a rollout that failed, its error. */
function reasonOf(item: ItemEvent, measure: string, threshold: number): string {
  if (item.status === 'failed')
    return onOneLine(`${item.error_type ?? 'failed'}: ${item.error_message ?? ''}`)
  const value = valueOf(item, measure)
  const noScore = item.score_errors?.[measure]
  const why =
    value === null
      ? `no ${measure}${noScore === undefined ? '' : `: ${noScore}`}`
      : `${measure} ${formatReward(value)}, and ${formatReward(threshold)} passes`
  return onOneLine(item.summary === '' ? why : `${why}: ${item.summary}`)
}

/** Characters. */
const longestReason = 200

/** What a policy or a tool said, without what controls a terminal. */
function onOneLine(text: string): string {
  const line = stripVTControlCharacters(text)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  return line.length > longestReason ? `${line.slice(0, longestReason)}…` : line
}

function command(location: string, rollout: string): string {
  const relative = path.relative('', location)
  const folder = relative === '' || relative.startsWith('..') ? location : relative
  const word = /^[\w@%+=:,./-]+$/.test(folder)
    ? folder
    : `'${folder.replaceAll("'", String.raw`'\''`)}'`
  return `npx osmosis eval show ${word} ${rollout}`
}
