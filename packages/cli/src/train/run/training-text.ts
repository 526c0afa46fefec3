import path from 'node:path'

import type { EvaluationProgress } from '@osmosis/eval'
import {
  changedSettings,
  driftText,
  failureAlarm,
  formatCount,
  formatDuration,
  formatQuantity,
  formatShare,
  settingsText,
} from '@osmosis/eval/analysis'
import type { EvaluationRecord, StepRecord, TrainResult } from '@osmosis/train'

import { fromWorkingFolder, type OutputStream } from '../../command/command-context.ts'
import { osmosisCommand, withCommand } from '../../command/output/shown-command.ts'
import { outputWidth, packed, wrapped } from '../../command/terminal-text.ts'
import { modelFolders, type TrainingPlan } from './training-plan.ts'

/** The plan of a training, a line for each fact. */
export function planText(
  plan: TrainingPlan,
  facts: readonly (readonly [name: string, text: string])[],
): string {
  const { name, subject, options, unused, warmSteps, made } = plan
  const { rows, heldOut, rowsPerStep, attempts } = options
  const steps = options.steps + warmSteps
  const rollouts = steps * rowsPerStep * attempts
  const warm = warmSteps === 0 ? '' : `, ${warmSteps} of them of the warm start`
  const { training, ...parts } = plan.settings
  const settings = settingsText(changedSettings({ ...training, ...parts }))
  const lines: [string, string][] = [
    ['Training', `${name}, of ${subject.rollout} on ${subject.dataset}`],
    ...facts.map(([label, text]): [string, string] => [label, text]),
    ...(made === undefined
      ? []
      : [
          ['Resumes', `after ${made} of ${steps} steps; --fresh starts a new training`] satisfies [
            string,
            string,
          ],
        ]),
    ['Rows', `${formatCount(rows.length)} to train, ${formatCount(heldOut.length)} held out`],
    [
      'Steps',
      `${steps} of ${rowsPerStep} rows × ${attempts} attempts = ${formatCount(rollouts)} rollouts${warm}`,
    ],
    ...(settings === '' ? [] : [['Settings', settings] satisfies [string, string]]),
    ['Folder', fromWorkingFolder(options.folder)],
  ]
  const width = Math.max(...lines.map(([label]) => label.length)) + 2
  const margin = ' '.repeat(width)
  return [
    ...lines.map(([label, text]) => {
      const wrappedText = wrapped(text, outputWidth() - width).join(`\n${margin}`)
      return `${label.padEnd(width)}${wrappedText}`
    }),
    ...withCommand('Watch it'.padEnd(width - 1), ['eval', 'view', plan.command]),
    ...unused.flatMap((line) => wrapped(`Not used  ${line}`, outputWidth())),
  ].join('\n')
}

/** The rest of the plan, when the entrypoint is served and does not limit the model calls of a rollout. */
export const unlimitedCallsText =
  'Calls     no limit per rollout: rolloutLimits.modelCalls sets one'

/**
 * About how long the rest of a training takes, by the steps that its process has made; undefined after the last one. The first of
 * them has the start of programs and models in it, and what is left of a step that was interrupted: it counts where it is alone.
 */
export function timeLeft(made: readonly StepRecord[], steps: number): string | undefined {
  const last = made.at(-1)
  if (last === undefined) return undefined
  const measured = made.slice(1).slice(-recentSteps)
  const seconds = (measured.length > 0 ? measured : [last]).map(
    ({ rollouts, update }) => rollouts.seconds + (update?.seconds ?? 0),
  )
  const each = seconds.reduce((sum, one) => sum + one, 0) / seconds.length
  const left = (steps - last.step) * each
  return left <= 0 ? undefined : `about ${formatDuration(left * 1000)} left`
}

/** Steps that say how long the next one takes. */
const recentSteps = 3

/** A step that ended, with further details, on as few lines as the terminal needs, and its alarms below. */
export function stepText(record: StepRecord, ...details: readonly (string | undefined)[]): string {
  const { step, phase, rollouts, batch, update, alarms } = record
  const parts = [
    `step ${String(step).padStart(3)}`,
    `reward ${shownReward(rollouts.reward)}`,
    `passed ${formatShare(rollouts.passRate)}`,
    `groups with a signal ${batch.groupsWithSignal} of ${batch.groups}`,
    ...(rollouts.failed > 0 ? [`${rollouts.failed} failed`] : []),
    update === null
      ? 'no update'
      : [
          ...(update.driftMean === null
            ? // An imitation compares nothing; otherwise an earlier version sampled all of it.
              phase === 'warm_start'
              ? []
              : ['drift not measured']
            : [`drift ${driftText(update.driftMean)}`]),
          ...(update.entropy === null ? [] : [`entropy ${update.entropy.toFixed(2)}`]),
        ].join('  '),
    `rollouts ${formatDuration(rollouts.seconds * 1000)}`,
    ...(update === null ? [] : [`update ${formatDuration(update.seconds * 1000)}`]),
    ...details.filter((detail) => detail !== undefined),
    ...(phase === 'warm_start' ? ['(warm start)'] : []),
  ].filter((part) => part !== '')
  const indent = ' '.repeat('step   1  '.length)
  const [first = '', ...more] = packed(parts, '  ', outputWidth() - indent.length)
  return [first, ...more.map((line) => `${indent}${line}`), ...alarms.flatMap(alarmLines)].join(
    '\n',
  )
}

function alarmLines(alarm: string): string[] {
  const [lead = '', ...rest] = wrapped(alarm, outputWidth() - 4)
  return [`  ! ${lead}`, ...rest.map((line) => `    ${line}`)]
}

/** An evaluation of the held-out rows, on one line, and that many rollouts failed below. */
export function evaluationText({ run, rollouts }: EvaluationRecord): string {
  const range =
    rollouts.rewardFrom === null || rollouts.rewardTo === null
      ? ''
      : ` (${rollouts.rewardFrom.toFixed(2)} to ${rollouts.rewardTo.toFixed(2)})`
  const what = run === 'before' ? 'before' : run.replace(/^after-step-0*/, 'after step ')
  const failure = failureAlarm(rollouts)
  return [
    `held-out rows ${what}: reward ${shownReward(rollouts.reward)}${range}, passed ${formatShare(rollouts.passRate)}`,
    ...(failure === undefined ? [] : alarmLines(failure)),
  ].join('\n')
}

/** What is printed at the end, behind the comparison. */
export function endText(
  plan: TrainingPlan,
  { reason, steps, best }: TrainResult,
  howToUse: readonly string[],
): string {
  const updates = steps.filter(({ update }) => update !== null).length
  return [
    '',
    `${reason} ${updates} updates in ${steps.length} steps.`,
    ...howToUse,
    ...(best === undefined || best.version === steps.at(-1)?.version
      ? []
      : [
          `The best ${best.step === 0 ? 'is the start' : `step    ${best.step} of ${steps.length}`}: ${fromWorkingFolder(path.join(plan.options.folder, modelFolders.best))} has its weights`,
        ]),
    `Read any step    ${osmosisCommand('eval', 'view', plan.command)}`,
    '',
  ].join('\n')
}

function withoutSignalAdvice(steps: TrainResult['steps']): string {
  const figures = steps.map(({ rollouts }) => rollouts)
  const failed = figures.reduce((sum, step) => sum + step.failed, 0)
  const rollouts = figures.reduce((sum, step) => sum + step.rollouts, 0)
  if (failed * 2 > rollouts)
    return `${formatCount(failed)} of ${formatQuantity(rollouts, 'rollout')} failed: find out why.`
  const rewards = figures.flatMap(({ reward }) => (reward === null ? [] : [reward]))
  if (rewards.length === 0) return 'No rollout got a reward: find out why.'
  return rewards.every((reward) => reward >= 1)
    ? 'All attempts passed: train harder rows, which is a new training (--fresh).'
    : 'Continue with a larger --n or rollout_temperature, or imitate the best attempts first: --warm-start <reward>. Easier rows, or a reward for parts of a success, are a new training (--fresh).'
}

/** What is printed when no step had a signal: what to do. */
export function withoutSignalText(plan: TrainingPlan, { steps }: TrainResult): string {
  const [run = ''] = steps.map((step) => step.run)
  return [
    '',
    `Nothing was trained: in none of ${formatCount(steps.length)} steps did attempts at the same row get different rewards.`,
    withoutSignalAdvice(steps),
    `Read them        ${osmosisCommand('eval', 'show', `${plan.command}/${run}`)}`,
    'To continue      the same command, which tries as many steps again',
    '',
  ].join('\n')
}

/** How far the rollouts of the current step have come: one line that replaces itself, on terminals only. */
export class TrainingProgress {
  readonly #output: OutputStream | undefined
  #shownAt = 0
  #isShown = false

  constructor(output: OutputStream | undefined) {
    this.#output = output?.isTTY ? output : undefined
  }

  update(run: string, { done, total }: EvaluationProgress): void {
    const now = performance.now()
    if (this.#output === undefined || (now - this.#shownAt < 100 && done < total)) return
    this.#shownAt = now
    this.#isShown = true
    this.#output.write(`\r\u001B[2K${run}  ${done} of ${total} rollouts`)
  }

  /** Prints something else instead of the line. */
  say(print: () => void): void {
    this.end()
    print()
  }

  end(): void {
    if (this.#isShown) this.#output?.write('\r\u001B[2K')
    this.#isShown = false
  }
}

function shownReward(reward: number | null): string {
  return reward === null ? 'none' : reward.toFixed(3)
}
