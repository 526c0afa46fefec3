import {
  type ExactNumber,
  added,
  exactDecimal,
  inverse,
  multiplied,
  negated,
  raised,
  ten,
} from './exact-number.ts'
import {
  ahead,
  anyDigits,
  behind,
  digits,
  either,
  kind,
  many,
  maybe,
  not,
  sequence,
  text,
} from './tokens/rules.ts'
import { blank, dashes, numeral, sign, space } from './tokens/token-rules.ts'
import type { Tokens } from './tokens/tokens.ts'

/** What was read of a text. */
export interface Amount {
  /** Undefined when it has none, as 1/0. It is worked out when it is asked for: of most numbers nobody wants to know it. */
  readonly value: () => ExactNumber | undefined
  readonly end: number
}

/** The last of "3 192.168.0.1" is an address. */
const thousand = sequence(digits(3, 3), not(sequence('.', anyDigits, '.', anyDigits)))
const spacedGroups = many(sequence(text('_', "'", '’', ' '), thousand))
const commaGroups = many(sequence(text('_', "'", '’', ' ', ','), thousand))
const pointGroups = many(sequence('.', digits(3, 3)))

/** Where groups of thousands end. A point beside another separator is the decimal point. */
function groupsEnd(tokens: Tokens, at: number): number {
  const behindFirst = at + 1
  if (!/^[1-9]\d{0,2}$/.test(tokens.text(at))) return behindFirst
  if (!tokens.decimalComma) return commaGroups(tokens, behindFirst) ?? behindFirst
  const groups = tokens.text(behindFirst) === '.' ? pointGroups : spacedGroups
  return groups(tokens, behindFirst) ?? behindFirst
}

const pointAndDigits = sequence('.', anyDigits)

/** Whether what looks like a date or a version is a number with a decimal comma, as 1.234.567 is. */
export function isGrouped(tokens: Tokens, at: number): boolean {
  const end = groupsEnd(tokens, at)
  return end > at + 1 && pointAndDigits(tokens, end) === undefined
}

const pointFirst = sequence(
  not(behind(either(kind('word', 'joined'), numeral, text('.')))),
  pointAndDigits,
)
const exponent = maybe(text('e', 'E'), maybe(sign), digits(1, 9))

function decimalAt(tokens: Tokens, at: number): Amount | undefined {
  const beginsWithPoint = pointFirst(tokens, at) !== undefined
  if (!beginsWithPoint && tokens.kind(at) !== 'digits') return undefined
  const wholeEnd = beginsWithPoint ? at : groupsEnd(tokens, at)
  const point = tokens.text(wholeEnd)
  const isInGroups = tokens.decimalComma && wholeEnd > at + 1 && tokens.text(at + 1) === '.'
  const isPoint = point === ',' ? tokens.decimalComma : point === '.' && !isInGroups
  const end = (isPoint ? anyDigits(tokens, wholeEnd + 1) : undefined) ?? wholeEnd
  const behindExponent = exponent(tokens, end) ?? end
  const value = (): ExactNumber | undefined => {
    const whole = tokens.between(at, wholeEnd).replaceAll(/\D/g, '')
    const part = end === wholeEnd ? '' : `.${tokens.text(end - 1)}`
    return exactDecimal(whole + part + tokens.between(end, behindExponent))
  }
  return { value, end: behindExponent }
}

const slash = sequence(maybe(space), '/', maybe(space))
const dash = text(...dashes)

/** A fraction such as 1/2, of which this is the part above. */
function fractionOf(tokens: Tokens, above: Amount): Amount | undefined {
  const behindSlash = slash(tokens, above.end)
  if (behindSlash === undefined) return undefined
  const behindSign = dash(tokens, behindSlash)
  const below = decimalAt(tokens, behindSign ?? behindSlash)
  if (below === undefined) return undefined
  const value = (): ExactNumber | undefined => {
    const share = multiplied(above.value(), inverse(below.value()))
    return share && behindSign !== undefined ? negated(share) : share
  }
  return { value, end: below.end }
}

const stars = sequence('*', '*')
const timesTen = sequence(
  maybe(space),
  text('×', 'x', '*', '·', '⋅'),
  maybe(space),
  '10',
  ahead(either('^', stars)),
)
const integer = sequence(maybe(space), maybe(sign), maybe(space), digits(1, 9))
const power = either(
  sequence(either('^', stars), '{', integer, maybe(space), '}'),
  sequence(either('^', stars), '(', integer, maybe(space), ')'),
  sequence('^', integer),
  // With a space behind them, the stars of **5** 3 end emphasis.
  sequence(stars, not(space), integer),
)

/** A power such as 10^6, of which this is the base, or 3 × 10^6, of which it is the factor. */
function powerOf(tokens: Tokens, { value, end }: Amount): Amount | undefined {
  const behindTen = timesTen(tokens, end)
  const start = behindTen ?? end
  const behindPower = power(tokens, start)
  if (behindPower === undefined) return undefined
  const raise = (base: ExactNumber | undefined): ExactNumber | undefined =>
    raised(base, tokens.between(start, behindPower).replaceAll(/[\s^*{}()]/g, ''))
  return {
    value: () => (behindTen === undefined ? raise(value()) : multiplied(value(), raise(ten))),
    end: behindPower,
  }
}

/** The 2 of 2 1/2. */
const mixed = sequence(digits(1, 15), blank, ahead(sequence(anyDigits, slash, anyDigits)))

/** The amount that begins here: a decimal number, a fraction, a mixed number, a power. */
export function amountAt(tokens: Tokens, at: number): Amount | undefined {
  const behindUnits = mixed(tokens, at)
  const decimal = decimalAt(tokens, behindUnits ?? at)
  if (decimal === undefined) return undefined
  const amount = fractionOf(tokens, decimal) ?? powerOf(tokens, decimal) ?? decimal
  if (behindUnits === undefined) return amount
  const value = (): ExactNumber | undefined => {
    const part = amount.value()
    // 2 3/2 may be a product.
    const isPart = part !== undefined && part.above < part.below
    return isPart ? added({ above: BigInt(tokens.text(at)), below: 1n }, part) : undefined
  }
  return { value, end: amount.end }
}
