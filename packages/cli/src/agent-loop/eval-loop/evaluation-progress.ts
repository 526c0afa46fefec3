import { oneLine, outcomeText } from '../outcome-text.ts'
import type { EvaluatedRun } from './evaluated-run.ts'

/** Says how each run went, on stdout, and on stderr what keeps a scorer from scoring, once. */
export class EvaluationProgress {
  readonly #total: number
  readonly #shows: { readonly runs: boolean; readonly models: boolean }
  readonly #complained = new Set<string>()
  #ended = 0

  /**
   * @param total - runs that are to be made
   * @param shows - whether lines about runs are printed, and whether they name the model
   */
  constructor(total: number, shows: { readonly runs: boolean; readonly models: boolean }) {
    this.#total = total
    this.#shows = shows
  }

  readonly onRun = (run: EvaluatedRun): void => {
    this.#ended += 1
    const name = this.#nameOf(run)
    if (this.#shows.runs) {
      const scores = Object.entries(run.scores.values).map(
        ([scorer, score]) => `${scorer} ${score}`,
      )
      const missing = Object.keys(run.scores.errors).map((scorer) => `${scorer} no score`)
      const outcome = outcomeText(name, run.result, [...scores, ...missing])
      process.stdout.write(`[${this.#ended}/${this.#total}] ${outcome}\n`)
    }
    for (const [scorer, error] of Object.entries(run.scores.errors)) {
      if (this.#complained.has(scorer)) continue
      this.#complained.add(scorer)
      process.stderr.write(`warning: ${name} got no score from ${scorer}: ${oneLine(error)}\n`)
    }
  }

  #nameOf({ row, runIndex, model }: EvaluatedRun): string {
    const name = `Row ${row.sourceRowIndex} run ${runIndex}`
    return this.#shows.models ? `${name} (${model.tag})` : name
  }
}
