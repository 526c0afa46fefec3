import { pick, type Chance } from '../faults/chance.ts'

const kinds = [
  ['throws', 0.06],
  ['judge throws', 0.04],
  ['removed', 0.05],
  ['two samples', 0.02],
  ['calls no model', 0.01],
  ['endpoint fails', 0.04],
  ['withdrawn', 0.03],
] as const

/** What a rollout does, which decides what may be trained of it. */
type Kind = 'rewarded' | (typeof kinds)[number][0]

/** The row of a rollout. */
export interface PlannedRow {
  readonly question: string
  readonly kind: Kind
  readonly calls: number
  /** No other rollout has the same. */
  readonly reward: number
  /** Before each model call. */
  readonly thinkMs: number
}

export function plannedRows(count: number, chance: Chance): PlannedRow[] {
  return Array.from({ length: count }, (_, n) => ({
    question: `What is ${n}?`,
    kind: pick<Kind>(chance('kind', n), kinds, 'rewarded'),
    calls: 1 + Math.floor(chance('calls', n) * 4),
    reward: (n + 1) / (2 * count),
    thinkMs: Math.floor(chance('think', n) * 200),
  }))
}

/** Whether there is something to train when nothing goes wrong. */
export function isRewarded({ kind }: PlannedRow): boolean {
  return kind === 'rewarded' || kind === 'endpoint fails'
}
