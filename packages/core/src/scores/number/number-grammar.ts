import { type Amount, amountAt } from './amounts.ts'
import { type ExactNumber, multiplied, negated } from './exact-number.ts'
import { moneyAt, type NumberScale, scaleAt } from './scale-words.ts'
import { isBelowZero, negation, signsAt } from './signs.ts'
import { ahead, anyDigits, either, kind, maybe, sequence, text, words } from './tokens/rules.ts'
import {
  currencySign,
  dashes,
  exponent,
  fractionCommand,
  space,
  wordEnds,
} from './tokens/token-rules.ts'
import type { Tokens } from './tokens/tokens.ts'
import { units, unitSymbol } from './units.ts'

/** A number of a text. */
export interface ReadNumber extends Amount {
  /** What multiplies it. */
  readonly scale: NumberScale | undefined
}

const percent = sequence(
  maybe(space),
  either('%', sequence('per', maybe(' '), 'cent', wordEnds), sequence('percent', wordEnds)),
)
const canBegin = either(kind('digits'), text('.', '+', ...dashes), negation)

/** A number that begins here: signs, an amount, and what multiplies or divides it. */
function readNumber(
  tokens: Tokens,
  start: number,
): (ReadNumber & { readonly amountEnd: number }) | undefined {
  if (canBegin(tokens, start) === undefined) return undefined
  const signs = signsAt(tokens, start)
  const amount = amountAt(tokens, signs.end)
  if (amount === undefined) return undefined
  const amountEnd = amount.end
  const scale = moneyAt(tokens, signs.end, amountEnd) ?? scaleAt(tokens, amountEnd)
  const percentEnd = scale === undefined ? percent(tokens, amountEnd) : undefined
  const value = (): ExactNumber | undefined => {
    const scaled = scale === undefined ? amount.value() : multiplied(amount.value(), scale.factor)
    const isNegative = signs.isNegative || isBelowZero(tokens, amountEnd)
    const signed = scaled && isNegative ? negated(scaled) : scaled
    return signed && { ...signed, isPercent: percentEnd !== undefined }
  }
  return { value, scale, amountEnd, end: scale?.end ?? percentEnd ?? amountEnd }
}

const ordinal = words('st nd rd th ths')
/** Behind a number stands no word, unless it is a unit or the end of an ordinal. */
const plainEnd = either(ahead(unitSymbol), sequence(maybe(ordinal), wordEnds))
const goesOn = sequence(maybe(text('.', ',', "'", '’', '_', ':')), anyDigits)
const inExpression = either(exponent, text('√', 'π'), sequence(maybe(space), fractionCommand))

/** The number that a text has from here on, when it is not a part of something larger. */
export function numberAt(tokens: Tokens, at: number): ReadNumber | undefined {
  const number = readNumber(tokens, at)
  if (number === undefined) return undefined
  const { scale, amountEnd } = number
  const end = number.end === amountEnd ? plainEnd(tokens, amountEnd) : number.end
  if (end === undefined || inExpression(tokens, end) !== undefined) return undefined
  if (scale === undefined && goesOn(tokens, end) !== undefined) return undefined
  return { value: number.value, scale, end }
}

const wholeEnd = sequence(maybe(units), maybe(space), maybe('.'), kind('end'))
const scaleDot = maybe('.')

/** The number that a text is as a whole, with its unit. */
export function numberOf(tokens: Tokens): ReadNumber | undefined {
  const number = readNumber(tokens, currencySign(tokens, 0) ?? 0)
  if (number === undefined) return undefined
  const end = number.scale === undefined ? number.end : scaleDot(tokens, number.end)
  return end === undefined || wholeEnd(tokens, end) === undefined ? undefined : number
}
