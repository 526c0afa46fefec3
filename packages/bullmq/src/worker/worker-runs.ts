import type { RolloutRuns } from '../records/rollout-runs.ts'
import type { WorkerRun } from './worker-run.ts'

/** The rollouts that are in this worker, by the ids of their records. */
export class QueueWorkerRuns {
  readonly #all = new Map<string, WorkerRun>()
  readonly #runs: RolloutRuns

  constructor(runs: RolloutRuns) {
    this.#runs = runs
  }

  get size(): number {
    return this.#all.size
  }

  get(id: string): WorkerRun | undefined {
    return this.#all.get(id)
  }

  add(run: WorkerRun): void {
    const { id } = run.of
    this.#all.set(id, run)
    run.over
      .then(() => {
        if (this.#all.get(id) === run) this.#all.delete(id)
        return undefined
      })
      .catch(() => {})
  }

  /** @param message - `grade` or `look`, the number of the run that counts, and the id of the rollout */
  hear(message: string): void {
    const [, what, current, id = ''] = /^(\w+) (\d+) (.*)$/s.exec(message) ?? []
    const run = this.#all.get(id)
    if (what === 'grade' && run?.of.run === Number(current)) run.allowGrading()
    else this.look(id).catch(() => {})
  }

  /** Looks at the record of a rollout: it is to be cancelled, graded or given up, perhaps. */
  async look(id: string): Promise<void> {
    const run = this.#all.get(id)
    if (run !== undefined) run.follow(await this.#runs.look(run.of))
  }

  /** Looks at all of them: messages may be lost. */
  async lookAtAll(): Promise<void> {
    await Promise.all([...this.#all.keys()].map(async (id) => this.look(id)))
  }

  /** Leaves all of them to other workers. */
  async leave(): Promise<void> {
    const all = [...this.#all.values()]
    for (const run of all) run.giveUp()
    await Promise.all(all.map(async ({ of }) => this.#runs.leave(of)))
  }

  /** Resolves when there are none. */
  async over(): Promise<void> {
    while (this.#all.size > 0) await Promise.all([...this.#all.values()].map(({ over }) => over))
  }
}
