import {
  compareRuns,
  type Estimate,
  passAt,
  passRate,
  RunTable,
  toRunDocument,
} from '@osmosis/eval/analysis'

import { eventsOf, manifestOf } from './runs.ts'

/** How many trials came out in a certain way, as shares. */
export interface Coverage {
  /** Intervals of the pass rate that hold the true one. */
  readonly clustered: number
  /** Intervals of a binomial that takes all attempts for independent. */
  readonly naive: number
  /** Intervals of pass@4 that hold the true one. */
  readonly passAt4: number
}

const attempts = 4

// Difficulty as datasets have it: a quarter hopeless, a quarter sure, the rest evenly between.
const hopeless = 0.02
const sure = 0.98
const truePassRate = 0.25 * hopeless + 0.25 * sure + 0.5 * 0.5
const truePassAt4 =
  0.25 * (1 - (1 - hopeless) ** 4) + 0.25 * (1 - (1 - sure) ** 4) + 0.5 * (1 - 1 / 5)

/** How often intervals hold the truth. */
export function coverage(rows: number, trials: number, seed: number): Coverage {
  const random = randomNumbers(seed)
  let [clustered, naive, four] = [0, 0, 0]
  for (let trial = 0; trial < trials; trial++) {
    const table = runOf(difficulties(rows, random), random)
    const rate = passRate(table)
    const value = rate.value ?? 0
    const half = 1.96 * Math.sqrt((value * (1 - value)) / (rows * attempts))
    if (holds(rate, truePassRate)) clustered += 1
    if (Math.abs(value - truePassRate) <= half) naive += 1
    if (holds(passAt(table, 4), truePassAt4)) four += 1
  }
  return { clustered: clustered / trials, naive: naive / trials, passAt4: four / trials }
}

/** How often two runs of one model are said to differ. */
export function alarms(rows: number, trials: number, seed: number): number {
  return verdicts(rows, trials, seed, (chance) => chance).paired
}

/** How often a model that passes more of the rows between hopeless and sure is found better. */
export function found(rows: number, trials: number, seed: number): Verdicts {
  return verdicts(rows, trials, seed, (chance) =>
    chance > 0.03 && chance < 0.97 ? Math.min(1, chance + 0.1) : chance,
  )
}

/** The shares of trials with a verdict. */
export interface Verdicts {
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
    const [low, high] = [passRate(before).ci95?.[1] ?? 1, passRate(after).ci95?.[0] ?? 0]
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
