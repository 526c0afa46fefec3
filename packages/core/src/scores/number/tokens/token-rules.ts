import {
  digits,
  either,
  kind,
  many,
  maybe,
  not,
  type Rule,
  sequence,
  text,
  whose,
} from './rules.ts'

// What several rules of numbers are made of.

/** One character of white space. */
export const space = whose((said) => said === ' ' || /^\s$/.test(said))
/** Space in a line, between the parts of a number. */
export const blank = whose((said) => said === ' ' || /^[^\S\n]{1,3}$/.test(said))
export const dashes = ['-', '−', '–'] as const
export const sign = text('+', ...dashes)
export const numeral = kind('digits', 'numeral')
/** What ends a word. Scripts without spaces between words never join one. */
export const wordEnds = not(kind('word', 'digits', 'numeral'))
export const inWord = many(kind('word', 'digits', 'numeral', 'underscore'))

export const currencyCodes = ['USD', 'EUR', 'GBP', 'JPY', 'CNY', 'INR', 'CHF'] as const
export const currency = either(kind('currency'), sequence('Rs', maybe('.')), text(...currencyCodes))

/** As it stands before an amount: US$ 3. */
export const currencySign = sequence(
  maybe(whose((said) => /^[A-Z]{1,3}$/.test(said))),
  kind('currency'),
  maybe(space),
)

/** From a bracket to the one that closes it. */
export function group(opening: '{' | '('): Rule {
  const toClosing: Rule = (tokens, at) => {
    const end = tokens.text(at) === opening ? tokens.closing(at) : undefined
    return end === undefined ? undefined : end + 1
  }
  return Object.assign(toClosing, { first: () => new Set([opening]) })
}

/** The exponent of something, as in km^2 and x^{n + 1}. */
export const exponent = sequence(
  '^',
  maybe(' '),
  either(
    group('{'),
    group('('),
    sequence(maybe(sign), many(either(kind('word'), numeral, text('.')), { least: 1 })),
  ),
)
/** The same as programs write it. */
export const starredPower = sequence('*', '*', digits(1, 9))

/** `\frac` and its like. What is left of them in a text has more in it than two numbers. */
export const fractionCommand = sequence('\\', text('frac', 'cfrac', 'dfrac', 'tfrac'))

/** What a sign or a word behind it subtracts from: a number or a bracket. */
export const operand = either(numeral, text(')', ']', '}', '%', '°'))

/** A word of a script without spaces between words, whatever follows it. */
export function joinedText(said: string): Rule {
  return sequence(...Array.from(said))
}
