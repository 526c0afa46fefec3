import path from 'node:path'

import {
  evaluationSummary,
  measuredPasses,
  type EvaluationProgress,
  type EvaluationResult,
} from '@osmosis/eval'
import {
  formatCount,
  formatDuration,
  formatQuantity,
  formatShare,
  type ItemEvent,
} from '@osmosis/eval/analysis'

import { workingFolder } from '../../command/command-context.ts'
import { gateFailedCode } from '../../command/exit-codes.ts'
import { printMessage, shortLine } from '../../command/terminal-text.ts'
import type { EvalRunFlags } from '../run.ts'
import { reasonSentence } from '../show/run-summary.ts'
import type { ChosenRun } from './choose-run.ts'
import type { EvalRunPlan, InFlight } from './evaluation-plan.ts'

/** Facts that are known when the entrypoint is served. */
export interface ServedFacts {
  readonly inFlight: InFlight
  /** Whether its rollouts get rewards. */
  readonly hasGrader: boolean
  /** Whether the workflow limits the model calls of a rollout. */
  readonly limitsCalls: boolean
}

/** The plan, before the entrypoint is served. */
export function planText(
  plan: EvalRunPlan,
  run: ChosenRun,
  model: string,
  doing: 'Starting' | 'Would start',
): string {
  const { rows, n, earlier } = run
  const total = rows.length * n
  const size = `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'attempt')} = ${formatQuantity(total, 'rollout')}`
  const done = earlier?.events.size ?? 0
  const resuming = doing === 'Starting' ? 'Resuming' : 'Would resume'
  const head =
    earlier === undefined
      ? `${doing} ${run.name}`
      : `${resuming} ${run.name}, ${formatCount(done)} of ${formatCount(total)} done`
  const withoutAnswer = rows.filter(
    ({ source_row: row }) => (plan.allRows[row]?.label ?? '').trim() === '',
  ).length
  const unanswered = `${formatCount(withoutAnswer)} of ${formatQuantity(rows.length, 'row')} without ground_truth`
  const shown = path.relative(workingFolder(), plan.datasetFile)
  return [
    head,
    field('Rollout', plan.rollout),
    ...Object.entries(plan.workflow).map(([name, value]) =>
      field('Set', `${name} = ${shortLine(JSON.stringify(value))}`),
    ),
    field('Dataset', shown.startsWith('..') ? plan.datasetFile : shown),
    field('Size', size),
    ...(withoutAnswer === 0 ? [] : [field('No answer', unanswered)]),
    field('Model', model),
    field('Folder', run.location),
  ].join('\n')
}

/** The rest of the plan, when the entrypoint is served. */
export function servedText({ inFlight, hasGrader, limitsCalls }: ServedFacts): string {
  const { limit, why } = inFlight
  // Printed before model calls cost anything.
  return [
    field('In flight', `${formatCount(limit)} concurrently: ${why}`),
    ...(limitsCalls
      ? []
      : [field('Calls', 'no limit per rollout: rolloutLimits.modelCalls sets one')]),
    ...(hasGrader ? [] : [field('Grader', 'none, so no rollout gets a reward')]),
  ].join('\n')
}

/** @param count - rollouts that have ended and run again */
export function runAgainText(count: number): string {
  return field(
    'Run again',
    `${formatQuantity(count, 'rollout')} that had ended: the grader sees the attempts at a row together`,
  )
}

function field(label: string, value: string): string {
  return `  ${label.padEnd(11)}${value}`
}

/** The output for progress: a terminal, a file or a pipe. */
export interface ProgressOutput {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** Options of a {@link ProgressLine}. */
export interface ProgressOptions {
  readonly passThreshold: number
  /** The eval functions. Their scores decide what passes where there are no rewards, as in reports. */
  readonly scoreNames: readonly string[]
  /** Items that ended in an earlier process and do not run again. */
  readonly earlier: readonly ItemEvent[]
}

/** An estimate needs this number of items. */
const minimumForEstimate = 5
/** Shorter waits are not printed, nor waits that soon follow a printed one. Milliseconds. */
const leastWaitMs = 1_000
const betweenWaitsMs = 10_000

/**
 * Prints the progress of a run: one line that is redrawn on a terminal, ten lines elsewhere. Prints the
 * first error of each eval function.
 */
export class ProgressLine {
  readonly #output: ProgressOutput | undefined
  readonly #options: ProgressOptions
  readonly #warned = new Set<string>()
  readonly #start = performance.now()
  /** Number of failed items by error type. */
  readonly #failures = new Map<string, number>()
  /** By what may decide what passes: how many have a value, and how many passed. */
  readonly #measures = new Map<string, { graded: number; passed: number }>()
  /** Items without those that were removed from training. */
  #counted = 0
  /** Items that have ended since the start. */
  #ended = 0
  #shownTenths: number | undefined
  #shownAt = 0
  #open = false
  #printedWaitAt = -Infinity

  /** @param output - undefined: nothing is shown */
  constructor(output: ProgressOutput | undefined, options: ProgressOptions) {
    this.#output = output
    this.#options = options
    for (const item of options.earlier) this.#count(item)
  }

  update(update: EvaluationProgress): void {
    const { done, total, item } = update
    this.#shownTenths ??= Math.floor(((done - 1) / total) * 10)
    this.#ended += 1
    this.#count(item)
    this.#warn(item)
    const tenths = Math.floor((done / total) * 10)
    if (this.#output?.isTTY) {
      // Redrawing more often than the eye follows only costs time.
      if (done < total && performance.now() - this.#shownAt < 100) return
      this.#shownAt = performance.now()
      this.#output.write(`\r\u001B[2K${this.#text(update)}`)
      this.#open = true
    } else if (tenths > this.#shownTenths) {
      this.#shownTenths = tenths
      this.#output?.write(`${this.#text(update)}\n`)
    }
  }

  /** Prints that a model call waits, because it was refused with a status. */
  wait(pauseMs: number, status: number): void {
    const now = performance.now()
    if (pauseMs < leastWaitMs || now - this.#printedWaitAt < betweenWaitsMs) return
    this.#printedWaitAt = now
    this.end()
    const what =
      status === 429
        ? 'limits the rate of calls'
        : status === 502
          ? 'cannot be reached'
          : 'is overloaded'
    this.#output?.write(`The policy ${what} (${status}): waiting ${formatDuration(pauseMs)}.\n`)
  }

  /** Ends the line, so that further output begins below it. */
  end(): void {
    if (this.#open) this.#output?.write('\n')
    this.#open = false
  }

  #count(item: ItemEvent): void {
    const { scoreNames, passThreshold } = this.#options
    const summary = evaluationSummary([item], { attempts: 1, passThreshold, scoreNames })
    for (const [name, one] of Object.entries({ reward: summary, ...summary.scores })) {
      const { graded, passed } = this.#measures.get(name) ?? { graded: 0, passed: 0 }
      this.#measures.set(name, { graded: graded + one.graded, passed: passed + one.passed })
    }
    this.#counted += summary.completed_samples
    for (const { error_type: type, count } of summary.failures) {
      this.#failures.set(type, (this.#failures.get(type) ?? 0) + count)
    }
  }

  #warn({ source_row_index: row, run_index: run, ...item }: ItemEvent): void {
    for (const [score, error] of Object.entries(item.score_errors ?? {})) {
      if (this.#warned.has(score)) continue
      this.#warned.add(score)
      this.end()
      this.#output?.write(
        `warning: Row ${row} attempt ${run} got no score from ${score}: ${shortLine(error)}\n`,
      )
    }
  }

  #text({ done, total, inFlight }: EvaluationProgress): string {
    const measures = [...this.#measures]
    const [measure, { passed }] = measures.find(([, { graded }]) => graded > 0) ?? [
      'reward',
      { passed: 0 },
    ]
    const share = ((100 * passed) / Math.max(1, this.#counted)).toFixed(0)
    const by = measure === 'reward' ? '' : ` by ${measure}`
    const perMs = this.#ended / (performance.now() - this.#start)
    const left = total - done
    return [
      `${formatCount(done)}/${formatCount(total)} rollouts`,
      `${share} % passed${by}`,
      ...this.#failureText(),
      `${(1000 * perMs).toFixed(1)}/s`,
      ...(inFlight.limit < inFlight.max
        ? [`${inFlight.limit} of ${inFlight.max} concurrently (rate limit)`]
        : []),
      ...(left > 0 && this.#ended >= minimumForEstimate
        ? [`about ${formatDuration(left / perMs)} left`]
        : []),
    ].join('  ')
  }

  #failureText(): string[] {
    const kinds = [...this.#failures].toSorted(([, a], [, b]) => b - a)
    if (kinds.length === 0) return []
    const all = kinds.reduce((sum, [, count]) => sum + count, 0)
    const [only, ...others] = kinds.map(([type, count]) => [type, `${count} ${type}`] as const)
    const list =
      others.length === 0 ? only?.[0] : [only, ...others].map((kind) => kind?.[1]).join(', ')
    return [`${formatCount(all)} failed (${list})`]
  }
}

/** The exit code of a run that has ended. Prints each reason why it is not 0. */
export function exitCodeOf(
  result: EvaluationResult,
  { minPassRate, grader }: Pick<EvalRunFlags, 'minPassRate' | 'grader'>,
): number {
  const errors = failuresOf(result, grader)
  for (const error of errors) printMessage(`error: ${error}`)
  if (errors.length > 0) return 1
  const { rate } = measuredPasses(result.model.summary)
  if (minPassRate === undefined || rate >= minPassRate) return 0
  printMessage(
    `error: The pass rate is ${formatShare(rate)}, and --min-pass-rate requires ${formatShare(minPassRate)}.`,
  )
  return gateFailedCode
}

/** The only output of a quiet command, apart from errors. */
export function outcomeLine({ names, status, model }: EvaluationResult): string {
  return `${names.run} ${status}: ${formatShare(measuredPasses(model.summary).rate)} passed`
}

function failuresOf({ incompleteReason, model }: EvaluationResult, needsReward: boolean): string[] {
  const { graded, completed_samples: completed, scores = {} } = model.summary
  const missing = Object.entries(scores).filter(([, score]) => score.graded === 0)
  const isUnscored = Object.keys(scores).length === 0 && graded === 0 && completed > 0
  return [
    ...missing.map(([score]) => `${score} scored no rollout of ${model.name}.`),
    ...(isUnscored && needsReward ? [`No rollout of ${model.name} got a reward.`] : []),
    ...(incompleteReason === null
      ? []
      : [`The run is incomplete. ${reasonSentence(incompleteReason)}`]),
  ]
}
