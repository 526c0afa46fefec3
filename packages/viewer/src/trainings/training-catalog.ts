import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { listTrainings, type ListedTraining } from '@osmosis/eval'

import type { TrainingListing } from '../wire.ts'
import { OpenTraining } from './open-training.ts'

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
    return listings.toSorted((a, b) => (startOf(a) < startOf(b) ? 1 : -1))
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
