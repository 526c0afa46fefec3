import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { measureRollouts, type MeasuredRollouts, type TrainingRecord } from '@osmosis/eval/analysis'

import { madeStep } from '../../../../test/kit/index.ts'
import { writeAirlineRun } from './airline-run.ts'

/** The shape of a synthetic training. */
export interface MadeTraining {
  readonly name: string
  readonly steps: number
  /** Planned steps. Default: those that are done. */
  readonly planned?: number
  /** Whether its start names no number of steps, as that of a worker. */
  readonly isOpenEnded?: boolean
  /** Rows of the dataset; the steps go through them in turn. */
  readonly rows: number
  readonly rowsPerStep: number
  readonly attempts: number
}

/** Writes a synthetic training whose skill rises, with an evaluation before it, and one after it when it is done. */
export async function writeTraining(root: string, training: MadeTraining): Promise<string> {
  const {
    name,
    steps,
    planned = steps,
    isOpenEnded = false,
    rowsPerStep,
    attempts,
    rows,
  } = training
  const folder = path.join(root, name)
  mkdirSync(path.join(folder, 'runs'), { recursive: true })
  writeFileSync(path.join(folder, 'training.json'), '{}\n')
  append(folder, {
    kind: 'start',
    step: 0,
    steps: isOpenEnded ? null : planned,
    model: 'Qwen/Qwen3-0.6B',
    rollout: 'airline-support',
    dataset: 'data/airline.jsonl',
    rows,
    rowsPerStep,
    attempts,
    settings: { loss: 'gspo', kl: 0.01 },
    startedAt: '2026-11-20T09:00:00.000Z',
  })
  await addEvaluation(folder, 'before', 0, -1)
  for (let step = 1; step <= steps; step++) await addStep(folder, training, step)
  if (steps < planned) return folder
  await addEvaluation(folder, runName('after-step', steps), steps, 2)
  append(folder, { kind: 'end', step: steps, reason: 'All steps are done.', endedAt: at(steps) })
  return folder
}

/** Adds a step with its run, as a running training does. */
export async function addStep(folder: string, training: MadeTraining, step: number): Promise<void> {
  const run = runName('step', step)
  const { planned = training.steps, rowsPerStep, attempts } = training
  const firstRow = ((step - 1) * rowsPerStep) % training.rows
  writeAirlineRun(path.join(folder, 'runs'), {
    name: run,
    rows: rowsPerStep,
    firstRow,
    attempts,
    skill: -1 + (4 * step) / planned,
    seed: 100 + step,
  })
  const { figures, rows, settledRows } = await measured(folder, run)
  const batch = { ...madeStep(step).batch, groups: rowsPerStep }
  append(
    folder,
    madeStep(step, {
      rollouts: figures,
      batch: { ...batch, groupsWithSignal: rowsPerStep - settledRows.length },
      update: { entropy: 1.2 - step / (2 * planned) },
      rows,
      settledRows,
      alarms:
        step % 7 === 3
          ? [
              '31 % of the answers were cut off: raise max_response_length, or the max_tokens of calls that set one.',
            ]
          : [],
      endedAt: at(step),
    }),
  )
}

/** A run of a step whose rollouts are still running. */
export function writeCurrentRun(
  folder: string,
  training: MadeTraining,
  { step, ended }: { readonly step: number; readonly ended: number },
): { readonly end: (count: number) => void; readonly remove: () => void } {
  const { rowsPerStep: rows, attempts } = training
  const run = { name: runName('step', step), rows, attempts, skill: 1, seed: 100 + step }
  const runs = path.join(folder, 'runs')
  const location = writeAirlineRun(runs, { ...run, ended })
  const journal = path.join(location, 'events.jsonl')
  const all = path.join(folder, 'whole')
  const whole = path.join(writeAirlineRun(all, run), 'events.jsonl')
  let written = ended
  return {
    end: (count) => {
      const next = readFileSync(whole, 'utf8')
        .split('\n')
        .slice(written, written + count)
      appendFileSync(journal, next.map((line) => `${line}\n`).join(''))
      written += count
    },
    remove: () => {
      for (const made of [location, all]) rmSync(made, { recursive: true })
    },
  }
}

async function addEvaluation(
  folder: string,
  run: string,
  step: number,
  skill: number,
): Promise<void> {
  const held = { name: run, rows: 8, attempts: 4, skill, seed: 7 + step }
  writeAirlineRun(path.join(folder, 'runs'), held)
  const { figures } = await measured(folder, run)
  append(folder, {
    kind: 'evaluation',
    run,
    step,
    version: step,
    rollouts: figures,
    endedAt: at(step),
  })
}

async function measured(folder: string, run: string): Promise<MeasuredRollouts> {
  const { manifest, sortedEvents } = await openRun(path.join(folder, 'runs', run))
  return measureRollouts(manifest, sortedEvents, 14)
}

function runName(kind: string, step: number): string {
  return `${kind}-${String(step).padStart(4, '0')}`
}

function append(folder: string, record: TrainingRecord): void {
  appendFileSync(path.join(folder, 'training.jsonl'), `${JSON.stringify(record)}\n`)
}

function at(step: number): string {
  return new Date(Date.UTC(2026, 10, 20, 9, step)).toISOString()
}
