import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { lockRun, openRun, trainingLock, trainingRuns, type DatasetRow } from '@osmosis/eval'
import {
  alarmsOf,
  type CheckpointRecord,
  type EvaluationRecord,
  type RunInputs,
  type StartRecord,
  type StepRecord,
  type UpdateFigures,
} from '@osmosis/eval/analysis'

import { policyGradientBatch, rejectionBatch, type CountedBatch } from '../batch/training-batch.ts'
import type { Learner } from '../learner.ts'
import { chooseRows } from './choose-rows.ts'
import { assertSameTraining } from './same-training.ts'
import { runStep, trainableSamples, type RunSettings } from './step-run.ts'
import { defaultUpdate, type TrainOptions, type TrainResult } from './train-options.ts'
import { TrainingJournal } from './training-journal.ts'

/**
 * Trains a policy: each step runs all attempts at some rows with the current version, compares the rewards of the attempts
 * at a row, and updates the weights once. Each step is a run in `<folder>/runs` that `osmosis eval` opens.
 *
 * A step counts when its line is in the journal. A training that was interrupted at any moment, by a kill too,
 * continues with the same call: rollouts that ended are not run again, and updates that the last checkpoint does not
 * have are made again from the stored rollouts.
 *
 * @throws OsmosisError with code `invalid_config` for options that cannot be or that differ from those the training
 * was started with, `run_locked` when another process trains in the folder, `training_drift` and
 * `learner_error` of the learner, `policy_unreachable` when rollouts cannot be run; the reason of `signal`
 */
export async function train(options: TrainOptions): Promise<TrainResult> {
  assertOptions(options)
  await mkdir(options.folder, { recursive: true })
  const lock = await lockRun(trainingLock(options.folder))
  try {
    await assertSameTraining(options)
    const journal = new TrainingJournal(options.folder)
    const source = await options.rollouts(options.learner.policy)
    try {
      return await new Training(options, journal, runSettings(options, source)).run()
    } finally {
      await source.close()
      await journal.close()
    }
  } finally {
    lock.release()
  }
}

class Training {
  readonly #options: TrainOptions
  readonly #journal: TrainingJournal
  readonly #runs: RunSettings
  readonly #learner: Learner
  readonly #signal: AbortSignal

  constructor(options: TrainOptions, journal: TrainingJournal, runs: RunSettings) {
    this.#options = options
    this.#journal = journal
    this.#runs = runs
    this.#learner = options.learner
    this.#signal = options.signal ?? new AbortController().signal
  }

  async run(): Promise<TrainResult> {
    await this.#restore()
    await this.#journal.append(this.#start())
    try {
      return await this.#toTheEnd()
    } catch (error) {
      await this.#saveInterrupted()
      throw error
    }
  }

  async #toTheEnd(): Promise<TrainResult> {
    if (this.#isEvaluationDue()) await this.#evaluate()
    let reason = this.#reasonToEnd()
    while (reason === undefined) {
      this.#signal.throwIfAborted()
      await this.#step(this.#journal.steps.length + 1)
      reason = this.#reasonToEnd()
      if (reason === undefined && this.#isEvaluationDue()) await this.#evaluate()
    }
    await this.#checkpoint()
    await this.#evaluate()
    const { steps, evaluations } = this.#journal
    const endedAt = new Date().toISOString()
    await this.#journal.append({ kind: 'end', step: steps.length, reason, endedAt })
    return { steps, evaluations, reason, best: this.#best(), runs: this.#runs.outputRoot }
  }

  #start(): StartRecord {
    const { rows, attempts = 8, warmStart, steps, learner } = this.#options
    const { rowsPerStep = Math.min(16, rows.length) } = this.#options
    return {
      kind: 'start',
      step: this.#journal.steps.length,
      steps: steps + (warmStart?.steps ?? 0),
      model: learner.name,
      ...this.#runs.names,
      rows: rows.length,
      rowsPerStep,
      attempts,
      startedAt: new Date().toISOString(),
    }
  }

  /** Brings the learner to where the journal ends. */
  async #restore(): Promise<void> {
    const { steps, checkpoints } = this.#journal
    const checkpoint = checkpoints.findLast(({ folder }) => existsSync(this.#path(folder)))
    if (checkpoint !== undefined) await this.#learner.load(this.#path(checkpoint.folder))
    else if (this.#learner.version > 0) {
      throw new OsmosisError(
        'invalid_config',
        `Cannot train: the learner has made ${this.#learner.version} updates, and ${this.#options.folder} has no checkpoint of it. Start with a new learner.`,
      )
    }
    for (const step of steps.slice(checkpoint?.step ?? 0)) {
      this.#signal.throwIfAborted()
      if (step.update === null) continue
      await this.#update(await this.#batchOf(step))
    }
  }

  async #step(number: number): Promise<void> {
    const { warmStart, onStep, onProgress } = this.#options
    const phase = number <= (warmStart?.steps ?? 0) ? 'warm_start' : 'policy_gradient'
    const run = `step-${padded(number)}`
    const sampledBy = this.#learner.version
    const rows = this.#rowsOf(number)
    const { figures, settledRows } = await runStep(this.#runs, {
      name: run,
      model: this.#modelName(),
      rows,
      attempts: this.#options.attempts ?? 8,
      trains: true,
      signal: this.#signal,
      onProgress: onProgress && ((progress) => onProgress(run, progress)),
    })
    const { batch, counts } = await this.#batchOf({ run, phase, sampledBy })
    const update = batch.sequences.length === 0 ? null : await this.#update({ batch, counts })
    const measured = {
      kind: 'step',
      step: number,
      phase,
      run,
      version: this.#learner.version,
      sampledBy,
      rollouts: figures,
      batch: counts,
      update,
      rows: rows.map(({ sourceRowIndex }) => sourceRowIndex),
      settledRows,
      endedAt: new Date().toISOString(),
    } as const
    const record: StepRecord = { ...measured, alarms: alarmsOf(measured, this.#journal.steps) }
    await this.#journal.append(record)
    if (number % (this.#options.checkpointEvery ?? 1) === 0) await this.#checkpoint()
    onStep?.(record)
  }

  async #batchOf({
    run,
    phase,
    sampledBy,
  }: Pick<StepRecord, 'run' | 'phase' | 'sampledBy'>): Promise<CountedBatch> {
    const folder = path.join(this.#runs.outputRoot, run)
    const { sortedEvents } = await openRun(folder)
    const samples = await trainableSamples(folder, sortedEvents)
    const { maxStaleness, normalizeAdvantages = true, warmStart } = this.#options
    const options = { version: sampledBy, maxStaleness, normalize: normalizeAdvantages }
    return phase === 'warm_start'
      ? rejectionBatch(samples, { ...options, threshold: warmStart?.threshold ?? 1 })
      : policyGradientBatch(samples, options)
  }

  #update({ batch }: CountedBatch): Promise<UpdateFigures> {
    const { update, seed = 0 } = this.#options
    const settings = { ...defaultUpdate, seed: seed + this.#learner.version, ...update }
    return this.#learner.update(batch, settings)
  }

  #rowsOf(step: number): DatasetRow[] {
    const { rows, curriculum = false, seed = 0 } = this.#options
    const { rowsPerStep = Math.min(16, rows.length) } = this.#options
    const settled = curriculum ? this.#settledRows() : undefined
    const chosen = chooseRows({
      rowCount: rows.length,
      rowsPerStep,
      seed,
      step,
      ...(settled && { settled }),
    })
    return chosen.flatMap((at) => rows[at] ?? [])
  }

  /** Positions of the rows whose attempts agreed when they were last tried. */
  #settledRows(): ReadonlySet<number> {
    const settled = new Set<number>()
    for (const { rows, settledRows } of this.#journal.steps) {
      for (const row of rows) settled.delete(row)
      for (const row of settledRows) settled.add(row)
    }
    const { rows } = this.#options
    return new Set(rows.flatMap(({ sourceRowIndex: row }, at) => (settled.has(row) ? [at] : [])))
  }

  /** Evaluates the held-out rows, unless that was done after the same step. */
  /** Before the first step, and after each `evaluateEvery` steps; after the last one it always is. */
  #isEvaluationDue(): boolean {
    const { evaluateEvery = 0 } = this.#options
    const done = this.#journal.steps.length
    return done === 0 || (evaluateEvery > 0 && done % evaluateEvery === 0)
  }

  async #evaluate(): Promise<void> {
    const { heldOut = [], heldOutAttempts = 4, onEvaluation, onProgress } = this.#options
    const step = this.#journal.steps.length
    const run = step === 0 ? 'before' : `after-step-${padded(step)}`
    const isDone = this.#journal.evaluations.some((evaluation) => evaluation.run === run)
    if (heldOut.length === 0 || isDone) return
    const { figures } = await runStep(this.#runs, {
      name: run,
      model: this.#modelName(),
      rows: heldOut,
      attempts: heldOutAttempts,
      trains: false,
      signal: this.#signal,
      onProgress: onProgress && ((progress) => onProgress(run, progress)),
    })
    const record: EvaluationRecord = {
      kind: 'evaluation',
      run,
      step,
      version: this.#learner.version,
      rollouts: figures,
      endedAt: new Date().toISOString(),
    }
    await this.#journal.append(record)
    onEvaluation?.(record)
  }

  #reasonToEnd(): string | undefined {
    const { steps } = this.#journal
    const { warmStart, stopWhen = {} } = this.#options
    const rewards = steps.map(({ rollouts }) => rollouts.reward ?? -Infinity)
    const last = rewards.at(-1) ?? -Infinity
    if (stopWhen.reward !== undefined && last >= stopWhen.reward) {
      return `The mean reward reached ${stopWhen.reward}.`
    }
    const best = rewards.indexOf(Math.max(...rewards))
    if (stopWhen.patience !== undefined && steps.length - 1 - best >= stopWhen.patience) {
      return `The mean reward has not risen for ${stopWhen.patience} steps.`
    }
    const total = this.#options.steps + (warmStart?.steps ?? 0)
    return steps.length >= total ? 'All steps are done.' : undefined
  }

  /** Saves the current state, unless the last checkpoint has it. */
  async #checkpoint(): Promise<void> {
    const step = this.#journal.steps.length
    if (this.#journal.checkpoints.at(-1)?.step === step) return
    const folder = path.join('checkpoints', `step-${padded(step)}`)
    await mkdir(this.#path('checkpoints'), { recursive: true })
    await this.#learner.save(this.#path(folder))
    const { version } = this.#learner
    await this.#journal.append({ kind: 'checkpoint', step, version, folder })
    await this.#removeOldCheckpoints()
  }

  /** Spares the next process the updates that no checkpoint has. */
  async #saveInterrupted(): Promise<void> {
    const last = this.#journal.steps.at(-1)
    // An update that is not in the journal will be made again.
    if (last === undefined || last.version !== this.#learner.version) return
    // The error that ended the training counts.
    await this.#checkpoint().catch(() => {})
  }

  async #removeOldCheckpoints(): Promise<void> {
    const { checkpoints } = this.#journal
    const kept = checkpoints.slice(-(this.#options.keepCheckpoints ?? 3))
    const best = this.#measuredBest()
    for (const checkpoint of checkpoints) {
      if (kept.includes(checkpoint) || checkpoint === best) continue
      await rm(this.#path(checkpoint.folder), { recursive: true, force: true })
    }
  }

  /** The checkpoint of the version that got the highest mean reward in a step. */
  #measuredBest(): CheckpointRecord | undefined {
    const rewards = this.#rewardsByVersion()
    const measured = this.#journal.checkpoints.filter(({ version }) => rewards.has(version))
    const highest = Math.max(...measured.map(({ version }) => rewards.get(version) ?? -1))
    return measured.find(({ version }) => rewards.get(version) === highest)
  }

  /** No step has measured the last version: it is the best when the one before it was. */
  #best(): CheckpointRecord | undefined {
    const rewards = this.#rewardsByVersion()
    const last = rewards.get(this.#journal.steps.at(-1)?.sampledBy ?? -1)
    const isRising = last === Math.max(...rewards.values())
    return isRising ? this.#journal.checkpoints.at(-1) : this.#measuredBest()
  }

  /** Mean rewards of the steps. */
  #rewardsByVersion(): ReadonlyMap<number, number> {
    const { steps } = this.#journal
    return new Map(steps.map((step) => [step.sampledBy, step.rollouts.reward ?? -Infinity]))
  }

  #modelName(): string {
    return `${this.#learner.name}@${this.#learner.version}`
  }

  #path(folder: string): string {
    return path.join(this.#options.folder, folder)
  }
}

function padded(step: number): string {
  return String(step).padStart(4, '0')
}

function assertOptions(options: TrainOptions): void {
  const { rows, steps, rowsPerStep = 1, attempts = 8 } = options
  const problem =
    rows.length === 0
      ? 'rows: at least one row is needed'
      : Object.entries({ steps, rowsPerStep, attempts })
          .filter(([, value]) => !Number.isSafeInteger(value) || value < 1)
          .map(([name, value]) => `${name}: must be a positive integer, got ${value}`)[0]
  if (problem !== undefined) throw new OsmosisError('invalid_config', `Cannot train: ${problem}.`)
}

function runSettings(options: TrainOptions, source: RunSettings['source']): RunSettings {
  const { names = { rollout: 'rollout', dataset: 'rows' }, passThreshold = 1 } = options
  const { rows, rowsPerStep = Math.min(16, rows.length), attempts = 8 } = options
  return {
    outputRoot: trainingRuns(options.folder),
    names,
    source,
    passThreshold,
    maxInFlight: options.maxInFlight ?? rowsPerStep * attempts,
    inputs: options.inputs ?? unknownInputs(names),
    provenance: options.provenance ?? {
      sdk_version: '0.0.0',
      node_version: process.version,
      config: null,
      git: null,
    },
    redact: options.redact,
  }
}

function unknownInputs({ rollout, dataset }: RunSettings['names']): RunInputs {
  return {
    model: { name: '', base_url: null, baseline: null, params: {} },
    dataset: { name: dataset, sha256: '' },
    code: { rollout, kind: 'workflow', entrypoint: '', sha256: '', scorers: [] },
    env: {},
    secrets: [],
    timeouts: { agent_seconds: null, grader_seconds: null, max_turns: null },
  }
}
