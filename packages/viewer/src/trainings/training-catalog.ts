import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError } from '@osmosis/core'
import {
  type ListedTraining,
  listTrainings,
  openRun,
  readTrainingJournal,
  trainingJournalFile,
  trainingRuns,
  trainingWriter,
} from '@osmosis/eval'
import {
  rowHistories,
  type RowHistory,
  RunTable,
  stepEstimates,
  type StepRecord,
  stepRows,
  type StepRows,
  toRunDocument,
  type TrainingRecord,
} from '@osmosis/eval/analysis'

import { OpenRun } from '../runs/open-run.ts'
import { fileStamp, Stamped } from '../runs/stamped.ts'
import type { CurrentRun, TrainingAnswer, TrainingListing, TrainingSummary } from '../wire.ts'

/** The places of trainings. */
export interface TrainingPlaces {
  /** A folder of trainings, such as `.osmosis/training` of a workspace. */
  readonly trainingRoot?: string
  /** Folders of single trainings. Of several with the same name the first counts. */
  readonly trainings?: readonly string[]
}

function startOf(listing: TrainingListing): string {
  return 'startedAt' in listing ? (listing.startedAt ?? '') : ''
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

/** Finds trainings by name. A name is compared with existing folders and never joined to a path. */
export class TrainingCatalog {
  readonly #places: TrainingPlaces
  readonly #open = new Map<string, OpenTraining>()

  constructor(places: TrainingPlaces) {
    this.#places = places
  }

  /** The newest first. */
  async list(): Promise<TrainingListing[]> {
    const listings: TrainingListing[] = []
    for (const training of await this.#all()) {
      try {
        listings.push(this.#opened(training).summary())
      } catch (error) {
        listings.push({ name: training.name, problem: errorMessage(error) })
      }
    }
    return listings.toSorted((a, b) => compare(startOf(b), startOf(a)) || compare(a.name, b.name))
  }

  async find(name: string): Promise<OpenTraining | undefined> {
    const found = (await this.#all()).find((training) => training.name === name)
    return found && this.#opened(found)
  }

  async #all(): Promise<ListedTraining[]> {
    const { trainingRoot, trainings = [] } = this.#places
    const named = trainings.map((folder) => {
      const location = path.resolve(folder)
      return { name: path.basename(location), location }
    })
    const found = trainingRoot === undefined ? [] : await listTrainings(trainingRoot)
    const all = [...named, ...found]
    return all.filter(({ name }, at) => all.findIndex((other) => other.name === name) === at)
  }

  #opened({ name, location }: ListedTraining): OpenTraining {
    const open = this.#open.get(location) ?? new OpenTraining(name, location)
    this.#open.set(location, open)
    return open
  }
}

/** A training: its journal, its current run, and how each row did in each step. */
class OpenTraining {
  readonly name: string
  readonly location: string
  readonly #journal = new Stamped<readonly TrainingRecord[]>()
  #current = new Stamped<Promise<OpenRun>>()
  /** By the name of a run, until the end of its step changes. */
  readonly #rows = new Map<string, Stamped<Promise<StepRows>>>()

  constructor(name: string, location: string) {
    this.name = name
    this.location = location
  }

  /** @throws OsmosisError with code `damaged_run` */
  summary(): TrainingSummary {
    const records = this.#records()
    const started = records.findLast(({ kind }) => kind === 'start')
    const steps = records.filter((record) => record.kind === 'step')
    const rewards = steps.flatMap(({ rollouts }) => rollouts.reward ?? [])
    return {
      name: this.name,
      state: this.#state(records),
      model: started?.kind === 'start' ? started.model : null,
      dataset: started?.kind === 'start' ? started.dataset : null,
      steps: steps.length,
      planned: started?.kind === 'start' ? started.steps : null,
      rewards,
      alarms: steps.at(-1)?.alarms ?? [],
      startedAt: records.find((record) => record.kind === 'start')?.startedAt ?? null,
    }
  }

  /** @throws OsmosisError with code `damaged_run` */
  async answer(): Promise<TrainingAnswer> {
    const records = this.#records()
    const state = this.#state(records)
    const current = state === 'running' ? await this.#currentRun(records) : null
    return { name: this.name, state, records, current }
  }

  /**
   * How the rows of the steps that ended did, by row. A step whose run was removed or is damaged is missing.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async rows(): Promise<RowHistory[]> {
    const steps = this.#records().filter((record) => record.kind === 'step')
    const read: StepRows[] = []
    for (const step of steps) {
      try {
        read.push(await this.#rowsOf(step))
      } catch (error) {
        if (!isOsmosisError(error)) throw error
      }
    }
    return rowHistories(read)
  }

  /** The folder of a run of this training; undefined when there is none of this name. */
  async runFolder(name: string): Promise<string | undefined> {
    const names = await this.#runNames()
    return names.includes(name) ? path.join(trainingRuns(this.location), name) : undefined
  }

  #records(): readonly TrainingRecord[] {
    const stamp = fileStamp(trainingJournalFile(this.location))
    return this.#journal.get(stamp, () => readTrainingJournal(this.location))
  }

  #state(records: readonly TrainingRecord[]): TrainingSummary['state'] {
    if (trainingWriter(this.location) !== null) return 'running'
    return records.at(-1)?.kind === 'end' ? 'finished' : 'interrupted'
  }

  /** The run whose rollouts are not all in the journal yet; null between two runs. */
  async #currentRun(records: readonly TrainingRecord[]): Promise<CurrentRun | null> {
    const ended = new Set(records.flatMap((record) => ('run' in record ? [record.run] : [])))
    const name = (await this.#runNames()).find((run) => !ended.has(run))
    if (name === undefined) return null
    try {
      const folder = path.join(trainingRuns(this.location), name)
      const run = await this.#current.get(name, () => OpenRun.open(folder))
      const view = await run.view('')
      if (view === undefined) return null
      const { ended: done, total } = await run.progress(view)
      const table = new RunTable(structuredClone(view.document))
      const { reward, passes } = stepEstimates(table)
      return {
        run: name,
        ended: done,
        total,
        reward: reward.value,
        rewardInterval: reward.ci95,
        passRate: passes.value,
        passInterval: passes.ci95,
      }
    } catch {
      // The run is being created.
      this.#current = new Stamped()
      return null
    }
  }

  async #runNames(): Promise<string[]> {
    const folder = trainingRuns(this.location)
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
    return entries
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
      .map(({ name }) => name)
      .toSorted()
  }

  /** A step changes only with its record: of a worker's step, rollouts may end later. */
  async #rowsOf({ step, run, endedAt }: StepRecord): Promise<StepRows> {
    const rows = this.#rows.get(run) ?? new Stamped()
    this.#rows.set(run, rows)
    return rows.get(endedAt, () => this.#readRows(step, run))
  }

  async #readRows(step: number, run: string): Promise<StepRows> {
    const { manifest, sortedEvents } = await openRun(path.join(trainingRuns(this.location), run))
    return stepRows(step, run, toRunDocument(manifest, sortedEvents))
  }
}
