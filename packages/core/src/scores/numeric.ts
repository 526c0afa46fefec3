import { OsmosisError } from '../errors.ts'
import { reference } from './reference.ts'

export interface NumericOptions {
  /** How far the number may be from the label. Default: 0. */
  readonly tolerance?: number
  /** The same as a share of the label: 0.01 is 1 %. The larger of the two counts. Default: 0. */
  readonly relative?: number
}

/**
 * 1 when the number of the answer is that of the label, else 0. The number is the content of the last `\boxed{}`,
 * without one the last number of the text. Fractions (`1/2`, `\frac{1}{2}`), exponents, the Unicode minus and thousands
 * separators (`1,234`) are read; a decimal comma, units and % are not. An answer without a finite number gets 0.
 * Beyond 2^53, where numbers are rounded, use `exact`.
 *
 * @throws OsmosisError with code `invalid_dataset` for a label without a number, `invalid_config` for a negative or
 * infinite tolerance
 */
export function numeric(
  answer: string,
  label: string | number | null,
  options: NumericOptions = {},
): 0 | 1 {
  const expected = readNumber(reference('numeric', label === null ? null : String(label)))
  if (expected === undefined) {
    throw new OsmosisError(
      'invalid_dataset',
      `numeric needs a label with a finite number, got ${JSON.stringify(String(label))}.`,
    )
  }
  const tolerance = Math.max(
    limit('tolerance', options.tolerance),
    limit('relative', options.relative) * Math.abs(expected),
  )
  const said = readNumber(answer)
  if (said === undefined) return 0
  // 0.4 is within 0.1 of 0.3, though their difference as floating point numbers is above it.
  const rounding = 4 * Number.EPSILON * Math.max(Math.abs(said), Math.abs(expected))
  const allowed = tolerance === 0 ? 0 : tolerance + rounding
  return Math.abs(said - expected) <= allowed ? 1 : 0
}

function limit(name: keyof NumericOptions, value = 0): number {
  if (Number.isFinite(value) && value >= 0) return value
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a finite number of at least 0, got ${String(value)}.`,
  )
}

const separator = String.raw`[,_\u00A0\u2009\u202F]`
const amount = String.raw`(?:(?:\d{1,3}(?:${separator}\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\.)\.\d+)(?:e[-\u2212+]?\d+)?`
/** A minus behind a number, letter or bracket subtracts. */
const sign = String.raw`(?:(?<![\p{L}\p{N})\]}])([-\u2212+])(?:\\?\p{Sc})?)?`
const start = String.raw`(?<!\p{L}|\p{N}|\p{N}\.)`
const number = `${sign}${start}(${amount})(?:\\s?/\\s?(${amount}))?`
const numbers = new RegExp(number, 'giu')
const onlyNumber = new RegExp(`^${number}$`, 'iu')

function readNumber(text: string): number | undefined {
  const plain = text
    .replaceAll('{,}', ',')
    .replaceAll(/\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}/g, '$1/$2')
  const box = lastBox(plain)
  const found = box === undefined ? [...plain.matchAll(numbers)].at(-1) : onlyNumber.exec(box)
  if (!found) return undefined
  const [, minus = '', above = '', below = '1'] = found
  const value = (valueOf(above) / valueOf(below)) * (minus === '' || minus === '+' ? 1 : -1)
  return Number.isFinite(value) ? value : undefined
}

function valueOf(digits: string): number {
  return Number(digits.replaceAll(new RegExp(separator, 'g'), '').replaceAll('\u2212', '-'))
}

/** The content of the last `\boxed{}`, without units; '' when it is not closed, undefined without one. */
function lastBox(text: string): string | undefined {
  const opening = '\\boxed{'
  const at = text.lastIndexOf(opening)
  if (at === -1) return undefined
  const from = at + opening.length
  let depth = 1
  for (let end = from; end < text.length; end++) {
    if (text[end] === '{') depth++
    if (text[end] === '}') depth--
    if (depth > 0) continue
    const content = text.slice(from, end).replaceAll(/\\text\{[^{}]*\}|\\[,!; ]|\\?[$%]/g, '')
    return (content.split('=').at(-1) ?? '').trim()
  }
  return ''
}
