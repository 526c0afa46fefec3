import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { listRuns } from '@osmosis/eval'

import type { TrainingCatalog } from '../trainings/training-catalog.ts'
import { OpenRun } from './open-run.ts'
import type { RunView } from './run-view.ts'

/** The places of runs. */
export interface RunPlaces {
  /** A folder of runs, such as `.osmosis/evals` of a workspace. */
  readonly root?: string
  /** Folders of single runs. Of several with the same name the first counts. */
  readonly runs?: readonly string[]
}

/** A run that was found. */
export interface CatalogRun {
  readonly name: string
  /** Absolute. */
  readonly location: string
  /** Why it cannot be opened; null when it can. */
  readonly problem: string | null
}

/** A requested run and view. */
export interface FoundView {
  readonly run: OpenRun
  readonly view: RunView
  /** The part after the @ of the name; may be empty. */
  readonly variant: string
}

/** Finds runs by name. A name is compared with existing folders and never joined to a path. */
export class RunCatalog {
  readonly #places: RunPlaces
  readonly #open = new Map<string, Promise<OpenRun>>()

  readonly #trainings: TrainingCatalog | undefined

  constructor(places: RunPlaces, trainings?: TrainingCatalog) {
    this.#places = places
    this.#trainings = trainings
  }

  /** The single runs as they were named, then those of the folder, the newest first. */
  async list(): Promise<CatalogRun[]> {
    const { root } = this.#places
    const found: CatalogRun[] = root === undefined ? [] : await listRuns(root)
    const all = [...this.#named(), ...found]
    return all.filter(({ name }, index) => all.findIndex((each) => each.name === name) === index)
  }

  /**
   * The run and the view of a name such as `my-run`, `my-run@grading` or `my-training/step-0007`; undefined when there
   * is none.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async find(name: string): Promise<FoundView | undefined> {
    const [own = '', variant = ''] = name.split('@', 2)
    const found = own.includes('/')
      ? await this.#inTraining(own)
      : (this.#named().find((each) => each.name === own) ?? (await this.#inRoot(own)))
    if (found === undefined) return undefined
    const run = await this.open(found)
    const view = await run.view(variant)
    return view === undefined ? undefined : { run, view, variant }
  }

  #named(): CatalogRun[] {
    return (this.#places.runs ?? []).map((location) => {
      const absolute = path.resolve(location)
      return { name: path.basename(absolute), location: absolute, problem: null }
    })
  }

  /** Does not read the run folders, because every request looks up a run. */
  async #inRoot(name: string): Promise<CatalogRun | undefined> {
    const { root } = this.#places
    if (root === undefined) return undefined
    const entries = await readdir(root, { withFileTypes: true }).catch(() => [])
    const folder = entries.find(
      (entry) => entry.name === name && entry.isDirectory() && !entry.name.startsWith('.'),
    )
    return folder && { name, location: path.resolve(root, folder.name), problem: null }
  }

  async #inTraining(name: string): Promise<CatalogRun | undefined> {
    const [training = '', run = ''] = name.split('/', 2)
    const location = await (await this.#trainings?.find(training))?.runFolder(run)
    return location === undefined ? undefined : { name, location, problem: null }
  }

  /** @throws OsmosisError with code `damaged_run` */
  async open({ name, location }: CatalogRun): Promise<OpenRun> {
    const opened = this.#open.get(location) ?? OpenRun.open(location, name)
    this.#open.set(location, opened)
    try {
      return await opened
    } catch (error) {
      // The problem may be fixed later.
      this.#open.delete(location)
      throw error
    }
  }

  /** The run, if it has been opened. */
  opened({ location }: CatalogRun): Promise<OpenRun> | undefined {
    return this.#open.get(location)
  }
}
