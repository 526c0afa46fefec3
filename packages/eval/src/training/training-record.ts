import { statSync } from 'node:fs'
import path from 'node:path'

import { errorMessage, type RolloutSample } from '@osmosis/core'
import {
  reportAfter,
  type RolloutEvent,
  type RolloutReport,
  type RolloutRequest,
  type SamplesById,
  type WorkflowOutcome,
} from '@osmosis/protocol'
import type { FolderLock } from '@osmosis/protocol/files'
import { toTrajectories } from '@osmosis/protocol/trajectory'

import type { RunRow } from '../analysis/records/run-manifest.ts'
import { average } from '../analysis/statistics/estimate.ts'
import type {
  StepRecord,
  TrainingRecord as JournalRecord,
} from '../analysis/training/training-records.ts'
import type { DatasetRow } from '../dataset/dataset-row.ts'
import { toEndedItem, meanMetrics, unnamedSample } from '../run/items/item-record.ts'
import type { ItemOutcome } from '../run/items/item-runner.ts'
import { listRuns } from '../store/list-runs.ts'
import { readTrainingJournal, trainingLock, trainingRuns } from '../store/read/training-folder.ts'
import { runFiles } from '../store/run-files.ts'
import { lockRun } from '../store/run-lock.ts'
import { createOutputFolder } from '../store/run-name.ts'
import { type AppendFile, openTrainingJournal } from '../store/write/append-file.ts'
import type { GradedRollout } from '../store/write/run-store.ts'
import { RecordedStep, recordedRow, stepName, type RecordedRollout } from './recorded-step.ts'

/** Options of {@link WorkerRecord.open}. */
export interface WorkerRecordOptions {
  /** Folder of the record; one that exists continues. */
  readonly folder: string
  /** Name of the trainer, for reports. */
  readonly trainer: string
  /** Name of the workflow, for reports. */
  readonly rollout: string
  /** The least reward of a rollout that passes. Default: 1. */
  readonly passThreshold?: number
  /** Removes secrets from what is stored. */
  readonly redact?: (<T>(data: T) => T) | undefined
  /** Receives why a rollout could not be recorded. It is delivered all the same. */
  readonly onProblem: (problem: string) => void
}

/** Runs of earlier versions that stay open for rollouts that end late. */
const openSteps = 3

/** The version of a rollout whose calls name none. */
const unknownVersion = 'policy'

/**
 * What a worker or server sees of a training that another program makes, as `osmosis eval view` shows trainings: a run for each
 * version of the policy. Recording never delays or fails a rollout.
 */
export class WorkerRecord {
  readonly #options: WorkerRecordOptions
  readonly #journal: AppendFile
  readonly #lock: FolderLock
  /** Positions of rows, by their key. */
  readonly #rows: Map<string, number>
  /** Not their number: rows of runs that are missing leave gaps. */
  #nextRow: number
  /** Numbers of the steps, by version. */
  readonly #numbers: Map<string, number>
  readonly #open = new Map<number, RecordedStep>()
  readonly #records: Map<number, StepRecord>
  /** Rollouts that are not stored yet. */
  #ended: { readonly request: RolloutRequest; readonly end: ReportedEnd }[] = []
  #last: Promise<void> = Promise.resolve()

  private constructor(
    options: WorkerRecordOptions,
    lock: FolderLock,
    known: Pick<Known, 'rows' | 'numbers' | 'records'>,
  ) {
    this.#options = options
    this.#lock = lock
    this.#rows = known.rows
    this.#nextRow = [...known.rows.values()].reduce((most, row) => Math.max(most, row + 1), 0)
    this.#numbers = known.numbers
    this.#records = known.records
    this.#journal = openTrainingJournal(options.folder, lock, ({ message }) =>
      options.onProblem(message),
    )
  }

  /**
   * Opens the record of a folder. The caller closes it.
   *
   * @throws OsmosisError with code `run_locked` when another process records there, `damaged_run`, `storage_error`
   */
  static async open(options: WorkerRecordOptions): Promise<WorkerRecord> {
    const { folder, trainer, rollout } = options
    await createOutputFolder(folder)
    const lock = await lockRun(trainingLock(folder))
    try {
      const record = new WorkerRecord(options, lock, await knownOf(folder))
      await record.#recordInterruptedSteps()
      const unknown = { steps: null, dataset: null, rows: null, rowsPerStep: null, attempts: null }
      const startedAt = new Date().toISOString()
      const step = record.#records.size
      await record.#append({ kind: 'start', step, model: trainer, rollout, ...unknown, startedAt })
      return record
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  /** A stage: records each rollout when its events have ended. */
  readonly recorded = (
    events: AsyncIterable<RolloutEvent>,
    request: RolloutRequest,
  ): AsyncIterable<RolloutEvent> => this.#watch(events, request)

  async *#watch(
    events: AsyncIterable<RolloutEvent>,
    request: RolloutRequest,
  ): AsyncGenerator<RolloutEvent> {
    const startedAt = performance.now()
    let report: RolloutReport | undefined
    for await (const event of events) {
      report = reportAfter(report, event)
      yield event
    }
    const durationMs = performance.now() - startedAt
    if (report !== undefined) this.#add(request, { ...report, durationMs })
  }

  /**
   * Writes what is pending.
   *
   * @throws OsmosisError with code `storage_error` when the journal could not be written; everything is closed then, too
   */
  async close(): Promise<void> {
    await this.#last
    try {
      for (const step of this.#open.values()) await this.#end(step)
      const endedAt = new Date().toISOString()
      const reason = 'The worker has ended.'
      await this.#append({ kind: 'end', step: this.#records.size, reason, endedAt })
    } finally {
      await this.#journal.close()
      await this.#lock.release()
    }
  }

  /** One after the other: rows, attempts and steps are numbered in the order in which rollouts end. */
  #add(request: RolloutRequest, end: ReportedEnd): void {
    this.#ended.push({ request, end })
    this.#last = this.#last.then(() => this.#storeEnded())
  }

  /** Stores what has ended meanwhile together, because each new row rewrites the manifest of its run. */
  async #storeEnded(): Promise<void> {
    const recorded: (RecordedRollout & { readonly version: string })[] = []
    for (const { request, end } of this.#ended.splice(0)) {
      try {
        recorded.push(await this.#rolloutOf(request, end))
      } catch (error) {
        this.#report(request.rolloutId, errorMessage(error))
      }
    }
    for (const [version, rollouts] of Map.groupBy(recorded, (rollout) => rollout.version)) {
      const problems = await this.#commit(version, rollouts)
      for (const [at, { item }] of rollouts.entries()) {
        if (problems[at] !== undefined) this.#report(item.event.rollout_id, problems[at])
      }
    }
  }

  async #commit(
    version: string,
    rollouts: readonly RecordedRollout[],
  ): Promise<(string | undefined)[]> {
    try {
      return await (await this.#stepOf(version)).commit(rollouts)
    } catch (error) {
      return rollouts.map(() => errorMessage(error))
    }
  }

  #report(rolloutId: string, problem: string): void {
    this.#options.onProblem(`${rolloutId} is not recorded: ${problem}`)
  }

  async #rolloutOf(
    request: RolloutRequest,
    end: ReportedEnd,
  ): Promise<RecordedRollout & { readonly version: string }> {
    const { redact = (data) => data } = this.#options
    const outcome = await recordedOutcome(request, end)
    const { given, stored: row } = this.#rowOf(request)
    const scores = { scores: {}, scoreErrors: {} }
    const context = { row, scores, isCompared: false, redact }
    const model = 'primary' as const
    const place = { rolloutId: request.rolloutId, row: given, model, rowIndex: 0, runIndex: 0 }
    const group = { id: row.key, attempt: 1, size: 1 }
    const item = toEndedItem({ ...place, group }, outcome, context)
    return { row, item, version: item.event.versions?.[0] ?? unknownVersion }
  }

  #rowOf({ initialMessages, label, metadata }: RolloutRequest): {
    given: DatasetRow
    stored: RunRow
  } {
    const given: DatasetRow = {
      sourceRowIndex: 0,
      initialMessages: initialMessages.map(({ role, content }) => ({
        role: role === 'system' ? 'system' : 'user',
        content: typeof content === 'string' ? content : JSON.stringify(content),
      })),
      label,
      metadata,
      otherColumns: {},
    }
    const stored = recordedRow(given)
    const position = this.#rows.get(stored.key) ?? this.#nextRow
    this.#rows.set(stored.key, position)
    this.#nextRow = Math.max(this.#nextRow, position + 1)
    return {
      given: { ...given, sourceRowIndex: position },
      stored: { ...stored, source_row: position },
    }
  }

  async #stepOf(version: string): Promise<RecordedStep> {
    // Not their number: a step whose run could not be created leaves a gap.
    const number = this.#numbers.get(version) ?? Math.max(0, ...this.#numbers.values()) + 1
    const isNew = !this.#numbers.has(version)
    this.#numbers.set(version, number)
    const known = this.#open.get(number)
    if (known !== undefined) return known
    const opened = await this.#openStep(number, version)
    if (isNew) for (const step of this.#open.values()) await this.#write(step)
    this.#open.set(number, opened)
    const [oldest] = this.#open.values()
    if (this.#open.size > openSteps && oldest !== undefined) {
      this.#open.delete(oldest.step)
      await this.#end(oldest)
    }
    return opened
  }

  #openStep(step: number, version: string): Promise<RecordedStep> {
    const { folder, rollout, passThreshold = 1 } = this.#options
    return RecordedStep.open({ runs: trainingRuns(folder), step, version, rollout, passThreshold })
  }

  /** Writes the records of steps that an earlier process did not write, because it was killed. */
  async #recordInterruptedSteps(): Promise<void> {
    for (const [version, number] of this.#numbers) {
      const { journal } = runFiles(path.join(trainingRuns(this.#options.folder), stepName(number)))
      const storedAt = statSync(journal, { throwIfNoEntry: false })?.mtimeMs ?? 0
      const record = this.#records.get(number)
      if (record !== undefined && storedAt <= Date.parse(record.endedAt)) continue
      const step = await this.#openStep(number, version)
      step.isChanged = true
      await this.#end(step)
    }
  }

  /** Writes the record of a step and closes its run. An error is a problem of this step alone. */
  async #end(step: RecordedStep): Promise<void> {
    try {
      try {
        await this.#write(step)
      } finally {
        await step.close()
      }
    } catch (error) {
      this.#options.onProblem(`${stepName(step.step)} is not recorded: ${errorMessage(error)}`)
    }
  }

  /**
   * Writes the record of a step, again when rollouts ended since. Where that fails, its journal has reported why: rollouts are
   * stored in their run all the same, from which the next process writes the record.
   */
  async #write(step: RecordedStep): Promise<void> {
    if (!step.isChanged) return
    const earlier = [...this.#records.values()].filter((record) => record.step < step.step)
    const record = step.record(earlier.toSorted((a, b) => a.step - b.step))
    step.isChanged = false
    this.#records.set(step.step, record)
    await this.#append(record).catch(() => {})
  }

  async #append(record: JournalRecord): Promise<void> {
    await this.#journal.append(JSON.stringify(record)).durable
  }
}

interface Known {
  readonly rows: Map<string, number>
  readonly numbers: Map<string, number>
  readonly records: Map<number, StepRecord>
}

/** What an earlier process recorded in a folder. */
async function knownOf(folder: string): Promise<Known> {
  const rows = new Map<string, number>()
  const numbers = new Map<string, number>()
  for (const { name, manifest } of await listRuns(trainingRuns(folder))) {
    const [, number] = /^step-(\d+)$/.exec(name) ?? []
    // A copy that somebody made beside a run is no step.
    if (manifest === null || number === undefined) continue
    numbers.set(manifest.inputs.model.name, Number(number))
    for (const { key, source_row: position } of manifest.rows) rows.set(key, position)
  }
  const steps = readTrainingJournal(folder).filter((record) => record.kind === 'step')
  return { rows, numbers, records: new Map(steps.map((record) => [record.step, record])) }
}

/** What a backend reported about a rollout. */
interface ReportedEnd extends RolloutReport {
  readonly durationMs: number
}

/** The outcome of a rollout of a worker, as evaluations have them. A failure has no reward, never 0. */
async function recordedOutcome(
  request: RolloutRequest,
  { workflow, samples: own, grading, durationMs }: ReportedEnd,
): Promise<ItemOutcome> {
  const failure = workflow.failure ?? grading?.failure ?? null
  const collected = (await workflow.partialSamples) ?? new Map<string, RolloutSample>()
  const samples = [grading?.samples, own].find((some) => (some?.size ?? 0) > 0) ?? collected
  const all = [...samples.values()]
  const inTraining = all.filter(({ removeSample }) => !removeSample)
  const rewards = inTraining.flatMap(({ reward }) => reward ?? [])
  const isRewarded = failure === null && rewards.length > 0 && rewards.length === inTraining.length
  const isRemoved = failure === null && all.length > 0 && inTraining.length === 0
  const message = failure?.message ?? (isRewarded || isRemoved ? null : 'the rollout has no reward')
  const status = message !== null ? 'failed' : isRemoved ? 'skipped' : 'success'
  const documents = toTrajectories({
    rolloutId: request.rolloutId,
    initialMessages: request.initialMessages,
    label: request.label,
    metadata: request.metadata,
    extraFields: null,
    samples,
    failures:
      failure === null
        ? []
        : [{ phase: phaseOf(workflow), category: failure.category, message: failure.message }],
    warnings: [],
    report: null,
  })
  return {
    status,
    reward: isRewarded ? average(rewards) : null,
    sampleRewards: Object.fromEntries(all.map(({ id, reward }) => [id, reward ?? null])),
    samples: [],
    usage: null,
    durationMs,
    errorType: status === 'failed' ? (failure?.category ?? 'missing_reward') : null,
    errorMessage: message,
    record: {
      trajectories: Object.fromEntries(
        documents.map(({ sampleId, trajectory }) => [sampleId ?? unnamedSample, trajectory]),
      ),
      graded: all.length === 0 ? null : gradedOf(request, samples),
      metrics: meanMetrics(inTraining.map(({ metrics }) => metrics)),
      gradingMs: null,
      trouble: null,
    },
  }
}

function phaseOf(workflow: WorkflowOutcome): 'workflow' | 'grading' {
  return workflow.status === 'success' ? 'grading' : 'workflow'
}

function gradedOf({ label, metadata }: RolloutRequest, samples: SamplesById): GradedRollout {
  return {
    label,
    metadata,
    artifacts: null,
    samples: Object.fromEntries(
      [...samples.values()].map((sample) => [
        sample.id,
        {
          messages: sample.messages,
          label: sample.label,
          metrics: sample.metrics,
          extra_fields: sample.extraFields,
          ...(sample.removeSample ? { removed: true } : {}),
        },
      ]),
    ),
  }
}
