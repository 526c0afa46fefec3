// How far the statistics of evaluations can be trusted: simulated runs whose truth is known, four
// attempts per row. Prints each figure beside its goal, and exits with 1 when one is missed.
import { alarms, coverage, found } from '../packages/eval/test/analysis/simulation.ts'

interface Figure {
  readonly rows: number
  readonly what: string
  readonly value: number
  readonly goal: readonly [low: number, high: number] | null
}

const figures: Figure[] = []

for (const rows of [10, 20, 50, 200, 1000]) {
  const trials = rows >= 1000 ? 1000 : 4000
  const { clustered, naive, passAt4 } = coverage(rows, trials, rows)
  // Two standard errors of the simulation itself to both sides.
  const slack = 2 * Math.sqrt((0.95 * 0.05) / trials)
  add(rows, 'pass rate ± holds the truth', clustered, [0.945 - slack, 0.959 + slack])
  add(rows, 'binomial ± holds it', naive, null)
  add(rows, 'pass@4 ± holds the truth', passAt4, rows >= 50 ? [0.95 - 0.01 - slack, 1] : null)
  add(rows, 'A against A: a verdict', alarms(rows, Math.min(trials, 1000), rows), [0, 0.08])
}
for (const rows of [50, 200, 1000]) {
  const { paired, unpaired } = found(rows, rows >= 1000 ? 200 : 600, rows)
  add(rows, '+4.7 points: found by rows', paired, rows === 200 ? [0.8, 1] : null)
  add(rows, '+4.7 points: found by intervals', unpaired, null)
}

for (const { rows, what, value, goal } of figures) {
  const beside = goal === null ? '' : `goal ${percent(goal[0])} to ${percent(goal[1])}`
  console.log(
    `${String(rows).padStart(5)} rows  ${what.padEnd(32)} ${percent(value).padStart(7)}  ${beside}`,
  )
}
console.log(JSON.stringify(figures))
process.exitCode = figures.every(isReached) ? 0 : 1

function add(rows: number, what: string, value: number, goal: Figure['goal']): void {
  figures.push({ rows, what, value, goal })
}

function isReached({ value, goal }: Figure): boolean {
  return goal === null || (value >= goal[0] && value <= goal[1])
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}
