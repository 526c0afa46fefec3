import { appendFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'

import type { StepFigures, TrainingRecord } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

import { madeStep } from '../../../test/kit/index.ts'
import { run as osmosis, workIn } from './in-process.ts'
import { makeRun, rewarded } from './made-runs.ts'
import { temporaryFolder } from './osmosis.ts'

const steps = 30
const attempts = 4

/** A training of 30 steps, each with 2 rows × 4 attempts, whose reward rises; in a folder in which the commands then run. Returns its folder. */
async function trained(): Promise<string> {
  const folder = temporaryFolder()
  workIn(folder)
  const training = path.join(folder, '.osmosis', 'training', 'airline')
  const runs = path.join(training, 'runs')
  mkdirSync(runs, { recursive: true })
  const append = (record: TrainingRecord): void =>
    appendFileSync(path.join(training, 'training.jsonl'), `${JSON.stringify(record)}\n`)
  const [model, rollout, dataset] = ['Qwen/Qwen3-0.6B', 'airline-support', 'airline']
  const startedAt = '2026-11-20T09:00:00.000Z'
  const plan = { rows: 16, rowsPerStep: 2, attempts, startedAt }
  append({ kind: 'start', step: 0, steps, model, rollout, dataset, ...plan })
  append(evaluation('before', 0, 0.25))
  for (let step = 1; step <= steps; step++) append(await stepOf(runs, step))
  append(evaluation('after-step-0030', 30, 0.75))
  append({ kind: 'end', step: steps, reason: 'All steps are done.', endedAt: startedAt })
  return training
}

/** Makes the run of a step and returns its record. */
async function stepOf(runs: string, step: number): Promise<TrainingRecord> {
  const passed = Math.round((step / steps) * attempts)
  const rewards = Array.from({ length: attempts }, (_, attempt) => Number(attempt < passed))
  const alarms = step % 7 === 3 ? [`${step} % of the answers were cut off: raise it.`] : []
  const record = madeStep(step, {
    rollouts: { ...figures(passed / attempts), metrics: { words: step } },
    alarms,
  })
  const items = rewarded([rewards, rewards])
  await makeRun({ outputRoot: runs, name: record.run, rows: 2, n: attempts, items })
  return record
}

function evaluation(run: string, step: number, reward: number): TrainingRecord {
  const { version, endedAt } = madeStep(step)
  return { kind: 'evaluation', run, step, version, rollouts: figures(reward), endedAt }
}

function figures(reward: number): StepFigures {
  return madeStep(1, { rollouts: { reward, passRate: reward } }).rollouts
}

it('shows the curve of a training, its alarms, and the commands that come next', async () => {
  await trained()
  const { code, stdout } = await osmosis(['eval', 'show', 'airline'])
  expect(code).toBe(0)
  expect(stdout).toContain('airline  finished · 30 of 30 steps')
  expect(stdout).toMatch(/^First +Last +Metric\n +1 +30 +words$/m)
  expect(stdout).toMatch(/^Held out {2}reward 0\.250 → 0\.750$/m)
  expect(stdout).toMatch(/^ {2}15 {3}0\.500 {2}█████ .* 2\/2 .* s$/m)
  expect(stdout).toContain('10 steps in between: --details shows them')
  expect(stdout).toMatch(/^Now {7}On held-out rows length, tool calls and endings are about/m)
  expect(stdout).toContain(
    '1 alarm\n  Steps 3, 10, 17, 24: 24 % of the answers were cut off: raise it. (These',
  )
  expect(stdout).toContain('osmosis eval show airline/step-0024')
  const { stdout: whole } = await osmosis(['eval', 'show', 'airline', '--details'])
  expect(whole.match(/^ +\d+ {3}[01]\.\d{3}/gm)).toHaveLength(30)
  const { stdout: json } = await osmosis(['eval', 'show', 'airline', '--json'])
  expect(JSON.parse(json)).toMatchObject({ name: 'airline', records: { length: 34 } })
})

it('shows one row over the steps, and the rollouts of a step', async () => {
  await trained()
  const { stdout } = await osmosis(['eval', 'show', 'airline', '1'])
  expect(stdout).toMatch(/^Row 1 of airline: learned at step 19$/m)
  expect(stdout.match(/^ +\d+ {2}\d of 4/gm)).toHaveLength(30)
  const { stdout: json } = await osmosis(['eval', 'show', 'airline', '1', '--json'])
  expect(JSON.parse(json)).toMatchObject({ row: 1, steps: { length: 30 } })
  const step = await osmosis(['eval', 'show', 'airline/step-0007'])
  expect(step.stdout).toContain('step-0007  finished')
  const both = await osmosis(['eval', 'compare', 'airline/step-0001', 'airline/step-0029'])
  expect(both.code).toBe(0)
})

it('trainings are listed with the runs, and named where a run is not found', async () => {
  const trainings = path.dirname(await trained())
  const { code, stdout } = await osmosis(['eval', 'runs'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^airline +finished +30\/30 +0\.250 → 0\.750 .*Qwen\/Qwen3-0\.6B$/m)
  const { stdout: json } = await osmosis(['eval', 'runs', '--json'])
  expect(JSON.parse(json)).toMatchObject({
    runs: [],
    trainings: [{ name: 'airline', status: 'finished', steps: 30, planned: 30 }],
  })
  for (const name of [[], ['latest'], ['other'], ['other/step-0001']]) {
    const missing = await osmosis(['eval', 'show', ...name])
    expect(missing.code).not.toBe(0)
    expect(missing.stderr).toContain('Trainings: airline.')
  }

  for (const [name, journal, status] of [
    ['broken', 'no JSON\n', 'broken'],
    ['new', '', 'interrupted'],
  ] as const) {
    mkdirSync(path.join(trainings, name))
    appendFileSync(path.join(trainings, name, 'training.jsonl'), journal)
    const listed = await osmosis(['eval', 'runs'])
    expect(listed.stdout).toMatch(new RegExp(`^${name} +${status} `, 'm'))
    expect(listed.stdout).toMatch(/^airline +finished /m)
  }
})

it('says what there is instead of a row or step that does not exist', async () => {
  await trained()
  const row = await osmosis(['eval', 'show', 'airline', '99'])
  expect(row.stderr).toContain('No step of airline has drawn row 99: there are 30 steps')
  const attempt = await osmosis(['eval', 'show', 'airline', '3.1'])
  expect(attempt.stderr).toContain('osmosis eval show airline/step-0001 3.1')
  const step = await osmosis(['eval', 'show', 'airline/step-0099'])
  expect(step.code).not.toBe(0)
  expect(step.stderr).toContain('step-0099')
})
