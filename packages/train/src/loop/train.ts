import { mkdir } from 'node:fs/promises'
import path from 'node:path'

import { lockRun, openRun, trainingLock, type DatasetRow } from '@osmosis/eval'
import {
  alarmsOf,
  changedSettings,
  type EvaluationRecord,
  type StartRecord,
  type StepRecord,
  type StepSettings,
  type UpdateFigures,
} from '@osmosis/eval/analysis'
import { namedFullDisk } from '@osmosis/protocol/files'

import {
  policyGradientBatch,
  rejectionBatch,
  usualVersion,
  type CountedBatch,
} from '../batch/training-batch.ts'
import type { Learner } from '../learner.ts'
import { Checkpoints, fullDiskAdvice } from './checkpoints.ts'
import { chooseRows, settledBefore } from './choose-rows.ts'
import { noteTraining } from './same-training.ts'
import { beginStep, padded, runStep, type StartedStepRun, type RunSettings } from './step-run.ts'
import { trainableSamples } from './stored-sequences.ts'
import {
  assertOptions,
  defaultUpdate,
  runSettings,
  updateOf,
  type TrainOptions,
  type TrainResult,
} from './train-options.ts'
import { TrainingJournal } from './training-journal.ts'

/**
 * Trains a policy: each step runs all attempts at some rows with the current version, compares the rewards of the attempts
 * at a row, and updates the weights once. Each step is a run in `<folder>/runs` that `osmosis eval` opens.
 *
 * A step counts when its line is in the journal. A training that was interrupted at any moment, by a kill too,
 * continues with the same call: rollouts that ended are not run again, unless all of an interrupted step have failed, and
 * updates that the last checkpoint does not have are made again from the stored rollouts.
 *
 * @throws OsmosisError with code `invalid_config` for options that cannot be or that differ from those the training
 * was started with, `run_locked` when another process trains in the folder, `training_drift` and
 * `learner_error` of the learner, `rollouts_incomplete` when rollouts cannot be run, `storage_error` when the disk is full; the
 * reason of `signal`
 */
export async function train(options: TrainOptions): Promise<TrainResult> {
  assertOptions(options)
  try {
    return await trainInFolder(options)
  } catch (error) {
    throw await namedFullDisk(error, { folder: options.folder, advice: fullDiskAdvice })
  }
}

async function trainInFolder(options: TrainOptions): Promise<TrainResult> {
  await mkdir(options.folder, { recursive: true })
  const lock = await lockRun(trainingLock(options.folder))
  try {
    const source = await options.rollouts(options.learner.policy)
    try {
      await noteTraining(options, options.learner)
      const journal = new TrainingJournal(options.folder, lock)
      try {
        return await new Training(options, journal, runSettings(options, source)).run()
      } finally {
        await journal.close()
      }
    } finally {
      await source.close()
    }
  } finally {
    await lock.release()
  }
}

/** What of a step is known before its update. */
type EndedStep = Pick<StepRecord, 'step' | 'rollouts' | 'rows' | 'settledRows'>

class Training {
  readonly #options: TrainOptions
  readonly #journal: TrainingJournal
  readonly #runs: RunSettings
  readonly #learner: Learner
  readonly #checkpoints: Checkpoints
  /** Whether the journal has all that changed the learner. */
  #isInJournal = true
  /** Steps that were done before this process. */
  readonly #before: number
  /** The rollouts of the next step, where they began beside the update of the last one. */
  #ahead: StartedStepRun | undefined
  readonly #signal: AbortSignal

  constructor(options: TrainOptions, journal: TrainingJournal, runs: RunSettings) {
    this.#options = options
    this.#journal = journal
    this.#runs = runs
    this.#learner = options.learner
    this.#before = journal.steps.length
    const { folder, learner, keepCheckpoints: retained = 3, onWarning = () => {} } = options
    this.#checkpoints = new Checkpoints({ folder, learner, journal, retained, onWarning })
    this.#signal = options.signal ?? new AbortController().signal
  }

  async run(): Promise<TrainResult> {
    await this.#restore()
    await this.#journal.append(this.#start())
    this.#isInJournal = true
    // The start can turn out to be the best.
    if (this.#journal.checkpoints.length === 0) await this.#checkpoints.save()
    try {
      return await this.#toTheEnd()
    } catch (error) {
      await this.#ahead?.stop()
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
      if (reason === undefined && this.#isEvaluationDue()) {
        await this.#evaluate()
        reason = this.#reasonToEnd()
      }
    }
    await this.#checkpoints.save()
    // Without an update the first evaluation holds.
    if (this.#hasUpdate()) await this.#evaluate()
    const { steps, evaluations } = this.#journal
    const endedAt = new Date().toISOString()
    await this.#journal.append({ kind: 'end', step: steps.length, reason, endedAt })
    return {
      steps,
      evaluations,
      reason,
      best: await this.#checkpoints.wholeBest(),
      runs: this.#runs.outputRoot,
    }
  }

  #start(): StartRecord {
    const { rows, attempts = 8, learner } = this.#options
    const { rowsPerStep = Math.min(16, rows.length) } = this.#options
    return {
      kind: 'start',
      step: this.#journal.steps.length,
      steps: this.#totalSteps(),
      model: learner.name,
      ...this.#runs.names,
      rows: rows.length,
      rowsPerStep,
      attempts,
      settings: changedSettings({ ...this.#options }),
      startedAt: new Date().toISOString(),
    }
  }

  /** Brings the learner to where the journal ends. */
  async #restore(): Promise<void> {
    const done = await this.#checkpoints.restore()
    for (const step of this.#journal.steps.slice(done)) {
      this.#signal.throwIfAborted()
      if (step.update === null) continue
      const settings = step.settings ?? this.#settings(step.step)
      await this.#update(await this.#batchOf({ ...step, settings }), settings)
      this.#checkpoints.assertVersion(step.version, `The state of step ${step.step}, made again,`)
    }
  }

  async #step(number: number): Promise<void> {
    const { warmStart, onStep } = this.#options
    const isWarm = this.#warmSteps() < (warmStart?.steps ?? 0)
    const phase = isWarm ? 'warm_start' : 'policy_gradient'
    const run = `step-${padded(number)}`
    const rows = this.#rowsOf(number).map(({ sourceRowIndex }) => sourceRowIndex)
    const settings: StepSettings = {
      ...this.#settings(number),
      ...(isWarm && { threshold: warmStart?.threshold }),
    }
    const started = this.#ahead ?? this.#begin(number)
    this.#ahead = undefined
    const { figures: rollouts, settledRows } = await started.ended
    const { batch, counts, sampledBy } = await this.#batchOf({ run, phase, settings })
    const ended = { step: number, rollouts, rows, settledRows }
    const isUpdated = batch.sequences.length > 0
    if (isUpdated) this.#beginNext(ended)
    const update = isUpdated ? await this.#update({ batch, counts }, settings) : null
    const measured = {
      kind: 'step',
      ...ended,
      phase,
      run,
      version: this.#learner.version,
      sampledBy,
      batch: counts,
      update,
      settings,
      endedAt: new Date().toISOString(),
    } as const
    const evaluated = this.#journal.evaluations.find(({ step }) => step === 0)
    const alarms = alarmsOf(measured, this.#journal.steps, evaluated?.rollouts)
    const record: StepRecord = { ...measured, alarms }
    await this.#journal.append(record)
    this.#isInJournal = true
    if (number % (this.#options.checkpointEvery ?? 1) === 0) await this.#checkpoints.save()
    onStep?.(record)
  }

  /** @param before - the steps before it */
  #begin(number: number, before: readonly EndedStep[] = this.#journal.steps): StartedStepRun {
    const { onProgress, seed = 0, attempts = 8 } = this.#options
    const name = `step-${padded(number)}`
    return beginStep(this.#runs, {
      name,
      seed,
      model: this.#modelName(),
      rows: this.#rowsOf(number, before),
      attempts,
      trains: true,
      signal: this.#signal,
      onProgress: onProgress && ((progress) => onProgress(name, progress)),
    })
  }

  /** Lets the rollouts of the next step run beside the update of this one, unless an evaluation or the end comes first. */
  #beginNext(ended: EndedStep): void {
    const steps = [...this.#journal.steps, ended]
    if ((this.#options.maxStaleness ?? 0) === 0 || this.#isEvaluationDue(steps.length)) return
    if (this.#reasonToEnd(steps, 0) === undefined) {
      this.#ahead = this.#begin(ended.step + 1, steps)
    }
  }

  async #batchOf({
    run,
    phase,
    settings,
  }: Pick<StepRecord, 'run' | 'phase'> & {
    readonly settings: StepSettings
  }): Promise<CountedBatch & Pick<StepRecord, 'sampledBy'>> {
    const folder = path.join(this.#runs.outputRoot, run)
    const { sortedEvents } = await openRun(folder)
    const samples = await trainableSamples(folder, sortedEvents)
    const { maxStaleness, normalizeAdvantages: normalize, maskCutAnswers } = settings
    const { version } = this.#learner
    const options = { version, maxStaleness, normalize, maskCutAnswers }
    // Trainings of earlier versions did not store it, and could not change it.
    const { threshold = this.#options.warmStart?.threshold ?? 1 } = settings
    const counted =
      phase === 'warm_start'
        ? rejectionBatch(samples, { ...options, threshold })
        : policyGradientBatch(samples, options)
    return { ...counted, sampledBy: usualVersion(samples) ?? version }
  }

  async #update({ batch }: CountedBatch, { update }: StepSettings): Promise<UpdateFigures> {
    this.#isInJournal = false
    return this.#learner.update(batch, { ...defaultUpdate, ...update })
  }

  /** How a step is trained. */
  #settings(step: number): StepSettings {
    const { maxStaleness = 0, maskCutAnswers = false, seed = 0 } = this.#options
    const update = updateOf(this.#options, step, this.#totalSteps())
    const { normalizeAdvantages = update.loss !== 'dr_grpo' } = this.#options
    return {
      normalizeAdvantages,
      maxStaleness,
      maskCutAnswers,
      update: { ...update, seed: this.#options.update?.seed ?? seed + this.#learner.version },
    }
  }

  #rowsOf(step: number, before: readonly EndedStep[] = this.#journal.steps): DatasetRow[] {
    const { rows, curriculum = false, seed = 0 } = this.#options
    const { rowsPerStep = Math.min(16, rows.length) } = this.#options
    const settled = curriculum ? settledBefore(before, rows) : undefined
    const chosen = chooseRows({
      rowCount: rows.length,
      rowsPerStep,
      seed,
      step,
      ...(settled && { settled }),
    })
    return chosen.flatMap((at) => rows[at] ?? [])
  }

  /** Before the first step, and after each `evaluateEvery` steps; after the last one it always is. */
  #isEvaluationDue(done = this.#journal.steps.length): boolean {
    const { evaluateEvery = 0 } = this.#options
    return done === 0 || (evaluateEvery > 0 && done % evaluateEvery === 0)
  }

  /** Evaluates the held-out rows, unless that was done after the same step. */
  async #evaluate(): Promise<void> {
    const { heldOut = [], heldOutAttempts = 4, onEvaluation, onProgress } = this.#options
    const step = this.#journal.steps.length
    const run = step === 0 ? 'before' : `after-step-${padded(step)}`
    const isDone = this.#journal.evaluations.some((evaluation) => evaluation.run === run)
    if (heldOut.length === 0 || isDone) return
    // Where its reward is the best, it has to be there.
    await this.#checkpoints.save()
    const { figures } = await runStep(this.#runs, {
      name: run,
      seed: this.#options.seed ?? 0,
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

  #reasonToEnd(
    steps: readonly EndedStep[] = this.#journal.steps,
    idle = this.#idleSteps(),
  ): string | undefined {
    const { evaluations } = this.#journal
    const { stopWhen = {}, heldOut = [], evaluateEvery = 0 } = this.#options
    const isHeldOut = heldOut.length > 0 && evaluateEvery > 0
    const measured = isHeldOut ? evaluations : steps
    const reward = isHeldOut ? 'held-out reward' : 'mean reward'
    const rewards = measured.map(({ rollouts }) => rollouts.reward ?? -Infinity)
    if (stopWhen.reward !== undefined && (rewards.at(-1) ?? -Infinity) >= stopWhen.reward) {
      return `The ${reward} reached ${stopWhen.reward}.`
    }
    const best = measured[rewards.indexOf(Math.max(...rewards))]?.step ?? 0
    const last = measured.at(-1)?.step ?? 0
    if (stopWhen.patience !== undefined && last - best >= stopWhen.patience) {
      return `The ${reward} has not risen for ${stopWhen.patience} steps.`
    }
    const { withoutSignal = 3 } = stopWhen
    if (withoutSignal > 0 && idle >= withoutSignal) {
      return `None of ${this.#hasUpdate() ? 'the last ' : ''}${idle} steps had a signal.`
    }
    return steps.length >= this.#totalSteps() ? 'All steps are done.' : undefined
  }

  /** The last steps of this process, as long as none of them had an update: another call is given as many again. */
  #idleSteps(): number {
    const { steps } = this.#journal
    const updated = steps.findLastIndex(({ update }) => update !== null) + 1
    return steps.length - Math.max(updated, this.#before)
  }

  #warmSteps(): number {
    return this.#journal.steps.filter(({ phase }) => phase === 'warm_start').length
  }

  /** Those of a warm start included, which a call that continues with the training may leave out once they are done. */
  #totalSteps(): number {
    const { steps, warmStart } = this.#options
    return steps + Math.max(this.#warmSteps(), warmStart?.steps ?? 0)
  }

  #hasUpdate(): boolean {
    return this.#journal.steps.some(({ update }) => update !== null)
  }

  /** Spares the next process the updates that no checkpoint has. */
  async #saveInterrupted(): Promise<void> {
    // What an update that failed has changed is unknown, and one that is not in the journal will be made again.
    if (!this.#isInJournal) return
    // The error that ended the training counts.
    await this.#checkpoints.save().catch(() => {})
  }

  #modelName(): string {
    return `${this.#learner.name}@${this.#learner.version}`
  }
}
