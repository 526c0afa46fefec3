import type { RunDocument } from '../table/run-document.ts'
import { RunTable } from '../table/run-table.ts'

/** The attempts at a row in one step of a training. */
export interface RowAtStep {
  readonly step: number
  /** The run with its rollouts. */
  readonly run: string
  /** Of the attempts with a reward; null without any. */
  readonly mean: number | null
  /** Attempts that passed, of those that ended. */
  readonly passed: number
  readonly ended: number
}

/** A row over the steps of a training that drew it. */
export interface RowHistory {
  /** Position in the dataset, from 0. */
  readonly row: number
  /** How its last message begins; empty when unknown. */
  readonly question: string
  /** Its metadata, by name. */
  readonly facets: Readonly<Record<string, string>>
  /** In the order of the steps. */
  readonly steps: readonly RowAtStep[]
}

/** The rows of one step. */
export interface StepRows {
  readonly step: number
  readonly run: string
  readonly rows: readonly (Omit<RowAtStep, 'step' | 'run'> &
    Pick<RowHistory, 'row' | 'question' | 'facets'>)[]
}

/** How the attempts at each row of a step ended. */
export function stepRows(step: number, run: string, document: RunDocument): StepRows {
  const table = new RunTable(document)
  const rows = table.groups.map((group) => {
    const { row, place, mean, passed, ended } = group
    const question = document.rows.question[place] ?? ''
    return { row, question, facets: table.facets(group), mean, passed, ended }
  })
  return { step, run, rows }
}

/** The same rows over all steps, by their position in the dataset. */
export function rowHistories(steps: readonly StepRows[]): RowHistory[] {
  const histories = new Map<number, Omit<RowHistory, 'row' | 'steps'> & { steps: RowAtStep[] }>()
  for (const { step, run, rows } of steps.toSorted((a, b) => a.step - b.step)) {
    for (const { row, question, facets, ...attempts } of rows) {
      const history = histories.get(row) ?? { question, facets, steps: [] }
      histories.set(row, history)
      history.steps.push({ step, run, ...attempts })
    }
  }
  return [...histories]
    .map(([row, history]) => ({ row, ...history }))
    .toSorted((a, b) => a.row - b.row)
}

/** How much a row's reward fell from its best step to its last; 0 for a row that never fell. */
export function lostReward({ steps }: RowHistory): number {
  const means = steps.flatMap(({ mean }) => mean ?? [])
  return means.length === 0 ? 0 : Math.max(...means) - (means.at(-1) ?? 0)
}

function mostlyFails({ passed, ended }: RowAtStep): boolean {
  return passed * 2 <= ended
}

/**
 * The first step from which a row passed in most attempts until the end: when the policy learned it, if it failed before. Null
 * for a row that does not pass in the end.
 */
function passesSince({ steps }: RowHistory): number | null {
  return steps[steps.findLastIndex(mostlyFails) + 1]?.step ?? null
}

/** Rows that pass since the same step. */
export interface LearnedRows {
  /** Null for rows that mostly failed when they were last drawn. */
  readonly step: number | null
  /** Those that failed before, and then those that passed when they were first drawn. */
  readonly rows: readonly RowHistory[]
  /** Those that failed before. */
  readonly learned: number
}

/** Rows by the step at which they were learned, the first step first; those that were not learned are the last. */
export function rowsByLearnedStep(histories: readonly RowHistory[]): LearnedRows[] {
  const groups = Map.groupBy(histories, passesSince)
  return [...groups]
    .toSorted(([a], [b]) => (a ?? Infinity) - (b ?? Infinity))
    .map(([step, rows]) => {
      const learned = rows.filter(({ steps }) => steps.some(mostlyFails))
      const others = rows.filter((row) => !learned.includes(row))
      return { step, rows: [...learned, ...others], learned: step === null ? 0 : learned.length }
    })
}

/** A smaller loss is noise. */
const noticedLoss = 0.25

/** What became of a row, e.g. `learned at step 7` or `fell by 0.75 at step 12`. */
export function rowVerdict(history: RowHistory): string {
  const { steps } = history
  const lost = lostReward(history)
  if (lost > noticedLoss) {
    const means = steps.map(({ mean }) => mean ?? Number.NEGATIVE_INFINITY)
    const best = means.lastIndexOf(Math.max(...means))
    return `fell by ${lost.toFixed(2)} at step ${steps[best + 1]?.step ?? '?'}`
  }
  const [first] = steps
  if (first !== undefined && steps.length === 1) {
    return `${first.passed} of ${first.ended} passed at step ${first.step}`
  }
  const since = passesSince(history)
  if (since === null) return 'not learned'
  return steps.some(mostlyFails) ? `learned at step ${since}` : `passes since step ${since}`
}
