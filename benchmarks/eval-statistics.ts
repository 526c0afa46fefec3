// How far the statistics of evaluations can be trusted: simulated runs whose truth is known, four
// attempts per row. Prints each figure beside its goal, and exits with 1 when one is missed.
import {
  compareRuns,
  type Estimate,
  passAt,
  passRate,
  RunTable,
  toRunDocument,
} from '@osmosis/eval/analysis'

import { eventsOf, manifestOf } from '../packages/eval/test/analysis/runs.ts'

interface Figure {
  readonly rows: number
  readonly what: string
  readonly value: number
  readonly goal: readonly [low: number, high: number] | null
}

const attempts = 4

// Difficulty as datasets have it: a quarter hopeless, a quarter sure, the rest evenly between.
const hopeless = 0.02
const sure = 0.98
const truePassRate = 0.25 * hopeless + 0.25 * sure + 0.5 * 0.5
const truePassAt4 =
  0.25 * (1 - (1 - hopeless) ** 4) + 0.25 * (1 - (1 - sure) ** 4) + 0.5 * (1 - 1 / 5)

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

/** How many trials came out in a certain way, as shares. */
interface Coverage {
  /** Intervals of the pass rate that hold the true one. */
  readonly clustered: number
  /** Intervals of a binomial that takes all attempts for independent. */
  readonly naive: number
  /** Intervals of pass@4 that hold the true one. */
  readonly passAt4: number
}

/** How often intervals hold the truth. */
function coverage(rows: number, trials: number, seed: number): Coverage {
  const random = randomNumbers(seed)
  let [clustered, naive, four] = [0, 0, 0]
  for (let trial = 0; trial < trials; trial++) {
    const table = runOf(difficulties(rows, random), random)
    const rate = passRate(table.groups)
    const value = rate.value ?? 0
    const half = 1.96 * Math.sqrt((value * (1 - value)) / (rows * attempts))
    if (holds(rate, truePassRate)) clustered += 1
    if (Math.abs(value - truePassRate) <= half) naive += 1
    if (holds(passAt(table.groups, 4), truePassAt4)) four += 1
  }
  return { clustered: clustered / trials, naive: naive / trials, passAt4: four / trials }
}

/** How often two runs of one model are said to differ. */
function alarms(rows: number, trials: number, seed: number): number {
  return verdicts(rows, trials, seed, (chance) => chance).paired
}

/** How often a model that passes more of the rows between hopeless and sure is found better. */
function found(rows: number, trials: number, seed: number): Verdicts {
  return verdicts(rows, trials, seed, (chance) =>
    chance > 0.03 && chance < 0.97 ? Math.min(1, chance + 0.1) : chance,
  )
}

/** The shares of trials with a verdict. */
interface Verdicts {
  readonly paired: number
  /** By whether two intervals lie apart. */
  readonly unpaired: number
}

function verdicts(
  rows: number,
  trials: number,
  seed: number,
  change: (chance: number) => number,
): Verdicts {
  const random = randomNumbers(seed)
  let [paired, unpaired] = [0, 0]
  for (let trial = 0; trial < trials; trial++) {
    const chances = difficulties(rows, random)
    const before = runOf(chances, random)
    const after = runOf(chances.map(change), random)
    const { tone } = compareRuns(before, after).verdict
    if (tone === 'better' || tone === 'worse') paired += 1
    const [low, high] = [
      passRate(before.groups).ci95?.[1] ?? 1,
      passRate(after.groups).ci95?.[0] ?? 0,
    ]
    if (high > low) unpaired += 1
  }
  return { paired: paired / trials, unpaired: unpaired / trials }
}

function runOf(chances: readonly number[], random: () => number): RunTable {
  const rewards = chances.map((chance) =>
    Array.from({ length: attempts }, () => (random() < chance ? 1 : 0)),
  )
  return new RunTable(toRunDocument(manifestOf(rewards.length), eventsOf(rewards)))
}

function difficulties(rows: number, random: () => number): number[] {
  return Array.from({ length: rows }, () => {
    const kind = random()
    return kind < 0.25 ? hopeless : kind < 0.5 ? sure : random()
  })
}

function holds({ ci95 }: Estimate, truth: number): boolean {
  return ci95 !== null && ci95[0] <= truth && truth <= ci95[1]
}

/** Evenly between 0 and 1, the same for the same seed: a counter through the mixer of MurmurHash3. */
function randomNumbers(seed: number): () => number {
  let count = Math.imul(seed, 0x9e3779b1)
  return () => {
    count = (count + 0x9e3779b9) | 0
    let bits = Math.imul(count ^ (count >>> 16), 0x85ebca6b)
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
    return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32
  }
}
