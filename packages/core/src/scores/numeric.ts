import { errorMessage, OsmosisError } from '../errors.ts'
import type { MetadataSchema } from '../workflow/metadata-schema.ts'
import { type ExactNumber, exactDecimal } from './number/exact-number.ts'
import { lastNumber, type NumberNotation, wholeNumber } from './number/read-numbers.ts'
import { reference } from './reference.ts'

export interface NumericOptions {
  /** How far the number may be from the label. Default: 0. */
  readonly tolerance?: number
  /** The same as a share of the label: 0.01 is 1 %. The larger of the two counts. Default: 0. */
  readonly relative?: number
  /** Whether `3,14` is 3.14 and `1.234` is 1234. Default: false; a number with a decimal comma is then none. */
  readonly decimalComma?: boolean
}

/**
 * 1 when the number of the answer is that of the label, else 0. The number is the content of the last `\boxed{}` or
 * `\fbox{}`, without one the last number of the text. Read are signs (also − and –), thousands (`1,234`), decimals,
 * exponents (`1e6`, `1.5 \times 10^3`), fractions (`1/2`, `\frac{1}{2}`, `2 1/2`, `½`), words that negate (`minus 5`) or
 * scale (`3 k`, `3 dozen`, `3 Mio.`, `$3m`, 3万), with any unit: 50% equals 50 and 0.5. Dates, times, versions and parts of a
 * larger number or of a unit (`km^2`) are no numbers. An answer without a number gets 0, and so does one whose number has
 * a word that scales by nobody knows what, as `3 mil` and `3 M`. A `K` behind a space is kelvin.
 *
 * @throws OsmosisError with code `invalid_dataset` for a label that is not one number as a whole, `invalid_config` for
 * a negative or infinite tolerance
 */
export function numeric(
  answer: string,
  label: string | number | null,
  options: NumericOptions = {},
): 0 | 1 {
  const expected = labelNumber(label, options)
  const tolerance = limit('tolerance', options.tolerance)
  const relative = limit('relative', options.relative)
  const box = lastBox(answer)
  const said = box === undefined ? lastNumber(answer, options) : wholeNumber(box, options)
  if (said === undefined) return 0
  const readings = said.isPercent === expected.isPercent ? [said] : [said, otherReading(said)]
  return readings.some((one) => isNear(one, expected, { tolerance, relative })) ? 1 : 0
}

/** For `label` of `defineGraderConfig`: refuses the labels that {@link numeric} refuses, before anything runs. */
export function numericLabel(
  options: Pick<NumericOptions, 'decimalComma'> = {},
): MetadataSchema<string> {
  return {
    '~standard': {
      version: 1,
      vendor: 'osmosis',
      validate(label) {
        try {
          labelNumber(label as string | null, options)
          return { value: label as string }
        } catch (error) {
          return { issues: [{ message: errorMessage(error) }] }
        }
      },
    },
  }
}

function labelNumber(label: string | number | null, notation: NumberNotation): ExactNumber {
  const text = reference('numeric', label === null ? null : String(label))
  const [, boxed = text] = /^\$?\\(?:boxed|fbox)\{(.*)\}\$?$/s.exec(text) ?? []
  const found = wholeNumber(boxed, notation)
  if (found !== undefined) return found
  const withComma = wholeNumber(text, { decimalComma: true })
  const advice = withComma && ' Write the decimal point as a point, or pass decimalComma: true.'
  throw new OsmosisError(
    'invalid_dataset',
    `numeric needs a label that is one number and nothing else, got ${JSON.stringify(text.slice(0, 100))}.${advice ?? ''}`,
  )
}

function limit(name: 'tolerance' | 'relative', value = 0): ExactNumber {
  const exact = Number.isFinite(value) && value >= 0 ? exactDecimal(String(value)) : undefined
  if (exact !== undefined) return exact
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a finite number of at least 0, got ${String(value)}.`,
  )
}

/** Where only one of both has a percent sign: 50 % of an answer as 0.5, and its 0.5 as 50 %. */
function otherReading({ above, below, isPercent }: ExactNumber): ExactNumber {
  return isPercent ? { above, below: below * 100n } : { above: above * 100n, below }
}

function isNear(
  said: ExactNumber,
  expected: ExactNumber,
  { tolerance, relative }: Readonly<Record<'tolerance' | 'relative', ExactNumber>>,
): boolean {
  const below = said.below * expected.below
  const difference = absolute(said.above * expected.below - expected.above * said.below)
  const isAtMost = (share: ExactNumber, of: bigint): boolean =>
    difference * share.below <= share.above * of
  const size = absolute(expected.above) * said.below
  if (isAtMost(tolerance, below) || isAtMost(relative, size)) return true
  const areWhole = [said, expected].every((one) => one.above % one.below === 0n)
  return !areWhole && isAtMost(rounding, size)
}

/** A label such as 0.3333333333333333 was a double. */
const rounding: ExactNumber = { above: 1n, below: 2n ** 50n }

function absolute(value: bigint): bigint {
  return value < 0n ? -value : value
}

const boxes = /\\(?:boxed|fbox|framebox)\s*(?:\{|(?=[-−–+]?\d))/g

/** The content of the last box, without the `x =` before it; '' when it is not closed, undefined without a box. */
function lastBox(text: string): string | undefined {
  const opening = [...text.matchAll(boxes)].at(-1)
  if (opening === undefined) return undefined
  const content = text.slice(opening.index + opening[0].length)
  if (!opening[0].endsWith('{')) return /^\S*[^\s.,;$]/.exec(content)?.[0] ?? ''
  let depth = 1
  for (let end = 0; end < content.length; end++) {
    if (content[end] === '{') depth++
    if (content[end] === '}') depth--
    if (depth === 0) return rightSide(content.slice(0, end))
  }
  return ''
}

/** What an equation says its left side is; '' for several equations. */
function rightSide(content: string): string {
  const sides = content.split(/(?<![<>!])=|≈|\\approx(?![a-zA-Z])/)
  const left = sides
    .slice(0, -1)
    .join('=')
    .replaceAll(/\([^()]*\)/g, '')
  return /;|,(?!\d{3})|\b(?:and|or)\b/.test(left) ? '' : (sides.at(-1) ?? '')
}
