import { added, type ExactNumber, negated } from './exact-number.ts'
import { noNumber, numeralRest } from './no-numbers.ts'
import { numberAt, numberOf, type ReadNumber } from './number-grammar.ts'
import { plainMath } from './tokens/plain-math.ts'
import { Tokens } from './tokens/tokens.ts'

/** How numbers are written. */
export interface NumberNotation {
  /** See `NumericOptions`. */
  readonly decimalComma?: boolean
}

/** The last number of a text; undefined when there is none, or when it has no value, as 1/0. */
export function lastNumber(
  text: string,
  { decimalComma = false }: NumberNotation,
): ExactNumber | undefined {
  const tokens = new Tokens(plainMath(text), decimalComma)
  let last: ReadNumber | undefined
  for (let at = 0; at < tokens.length;) {
    const skipped = noNumber(tokens, at)
    const number = skipped === undefined ? numberAt(tokens, at) : undefined
    if (number !== undefined) {
      const isRest = last !== undefined && addsTo(last, number, tokens.between(last.end, at))
      last = isRest && last !== undefined ? sum(last, number) : number
    }
    at = skipped ?? number?.end ?? numeralRest(tokens, at) ?? at + 1
  }
  return last?.value()
}

/** Whether a number continues the one before it, as the 5 of `3 hundred and 5` and of 3万5. */
function addsTo({ scale }: ReadNumber, number: ReadNumber, between: string): boolean {
  if (scale?.factor === undefined || !/^\s?(?:and\s)?$/.test(between)) return false
  const value = number.value()
  return value !== undefined && value.above >= 0n && value.above < scale.factor.above * value.below
}

function sum(one: ReadNumber, other: ReadNumber): ReadNumber {
  const [begun, continued] = [one.value(), other.value()]
  const isNegative = begun !== undefined && begun.above < 0n
  const value = added(begun, continued && isNegative ? negated(continued) : continued)
  return { value: () => value, scale: one.scale, end: other.end }
}

/** The number that a text is as a whole, with its unit; undefined when it is anything else. */
export function wholeNumber(
  text: string,
  { decimalComma = false }: NumberNotation,
): ExactNumber | undefined {
  return numberOf(new Tokens(withoutBrackets(plainMath(text)), decimalComma))?.value()
}

function withoutBrackets(text: string): string {
  const tokens = new Tokens(text, false)
  let [first, last] = [0, tokens.length - 1]
  for (;;) {
    while (tokens.kind(first) === 'space') first++
    while (tokens.kind(last) === 'space') last--
    const isMath = first < last && tokens.text(first) === '$' && tokens.text(last) === '$'
    if (!isMath && tokens.closing(first) !== last) return tokens.between(first, last + 1)
    first++
    last--
  }
}
