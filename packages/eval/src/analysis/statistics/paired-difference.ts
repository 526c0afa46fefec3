import { type Estimate, halfWidth, meanOfRows, tQuantile } from './estimate.ts'

/** The mean difference over rows that two runs both have. */
export interface PairedDifference extends Estimate {
  /** The smallest true difference that this number of rows detects with 80 % power; null when unknown. */
  readonly detectable: number | null
  /** Rows that became better. */
  readonly better: number
  /** Rows that became worse. */
  readonly worse: number
  /** Rows that did not change at all. */
  readonly same: number
}

/** d̄ ± t·sd(d)/√R of the differences of rows. Detectable are 2.8 standard errors: z(0.975) + z(0.8). */
export function pairedDifference(differences: readonly number[]): PairedDifference {
  const estimate = meanOfRows(differences)
  const half = halfWidth(estimate)
  return {
    ...estimate,
    detectable: half === null ? null : (2.8 * half) / tQuantile(estimate.rows - 1),
    better: differences.filter((difference) => difference > 0).length,
    worse: differences.filter((difference) => difference < 0).length,
    same: differences.filter((difference) => difference === 0).length,
  }
}

/** A difference in words. */
export interface Verdict {
  /** `none`: the rows show no significant difference. `unknown`: there are too few rows. */
  readonly tone: 'better' | 'worse' | 'none' | 'unknown'
  /** How the sentence begins, e.g. `Better by 3.4 points`. */
  readonly lead: string
  /** How it continues, e.g. `, with 95 % confidence between 1.9 and 4.8.` */
  readonly rest: string
}

/** A verdict needs this many rows. */
const minRows = 10

/** @param scale - the unit of differences: percentage points for pass rates, else the plain value */
export function verdictOf(difference: PairedDifference, scale: 'points' | 'plain'): Verdict {
  const { value, ci95, rows, detectable, better, worse } = difference
  if (value === null || rows < minRows) {
    return { tone: 'unknown', lead: 'Too few rows to compare', rest: '.' }
  }
  const figure = (amount: number): string =>
    scale === 'points' ? Math.abs(100 * amount).toFixed(1) : Math.abs(amount).toFixed(3)
  const unit = scale === 'points' ? ' points' : ''
  const half = halfWidth(difference)
  if (ci95 === null || half === null || detectable === null) {
    if (better + worse === 0) return { tone: 'none', lead: 'No row differs', rest: '.' }
    const tone = value > 0 ? 'better' : 'worse'
    return { tone, lead: `${capital(tone)} by ${figure(value)}${unit}`, rest: ' in every row.' }
  }
  if (Math.abs(value) > half) {
    const tone = value > 0 ? 'better' : 'worse'
    const [near, far] = value > 0 ? ci95 : [ci95[1], ci95[0]]
    return {
      tone,
      lead: `${capital(tone)} by ${figure(value)}${unit}`,
      rest: `, with 95 % confidence between ${figure(near)} and ${figure(far)}.`,
    }
  }
  const sign = value < 0 ? '−' : '+'
  return {
    tone: 'none',
    lead: 'No significant difference',
    rest: `: ${sign}${figure(value)}${unit} ± ${figure(half)}. These rows detect a true change of ${figure(detectable)} with 80 % power.`,
  }
}

function capital(tone: 'better' | 'worse'): string {
  return tone === 'better' ? 'Better' : 'Worse'
}
