import path from 'node:path'

import { formatCount, formatQuantity } from '@osmosis/eval'

import { workingFolder } from '../../command/surroundings.ts'
import type { ComparedModels } from '../models/compared-models.ts'
import type { ChosenRun } from './choose-run.ts'
import type { EvalRunPlan } from './evaluation-plan.ts'

/** How many rollouts run concurrently, and what decides that. */
export interface InFlight {
  readonly limit: number
  readonly why: string
}

/** What an entrypoint tells when it is served. */
export interface ServedFacts {
  readonly inFlight: InFlight
  /** Whether anything rewards its rollouts. */
  readonly hasGrader: boolean
}

/** What will be done, as lines for people; before anything is served. */
export function planText(
  plan: EvalRunPlan,
  run: ChosenRun,
  { primary, baseline }: ComparedModels,
  doing: 'Starting' | 'Would start',
): string {
  const { rows, n, earlier } = run
  const models = baseline === undefined ? '' : ' × 2 models'
  const total = rows.length * n * (baseline === undefined ? 1 : 2)
  const size = `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'attempt')}${models} = ${formatQuantity(total, 'rollout')}`
  const done = earlier?.events.size ?? 0
  const resuming = doing === 'Starting' ? 'Resuming' : 'Would resume'
  const head =
    earlier === undefined
      ? `${doing} ${run.name}`
      : `${resuming} ${run.name}, ${formatCount(done)} of ${formatCount(total)} done`
  const shown = path.relative(workingFolder(), plan.datasetFile)
  return [
    head,
    field('Rollout', plan.rollout),
    field('Dataset', shown.startsWith('..') ? plan.datasetFile : shown),
    field('Size', size),
    field(
      'Model',
      baseline === undefined ? primary.name : `${primary.name} against ${baseline.name}`,
    ),
    field('Folder', run.location),
  ].join('\n')
}

/** Known only when the entrypoint is served. */
export function servedText({ inFlight: { limit, why }, hasGrader }: ServedFacts): string {
  const limits = field('In flight', `${formatCount(limit)} at a time: ${why}`)
  if (hasGrader) return limits
  // Said before the model calls are paid for.
  return `${limits}\n${field('Grader', 'none, so no rollout gets a reward')}`
}

/** @param count - rollouts that have ended and are not left out */
export function runAgainText(count: number): string {
  return field(
    'Run again',
    `${formatQuantity(count, 'rollout')} that had ended: the grader sees the attempts at a row together`,
  )
}

function field(label: string, value: string): string {
  return `  ${label.padEnd(11)}${value}`
}
