import {
  behind,
  either,
  kind,
  many,
  maybe,
  not,
  type Rule,
  sequence,
  text,
  whose,
  words,
} from './tokens/rules.ts'
import {
  blank,
  currencySign,
  dashes,
  joinedText,
  operand,
  sign,
  wordEnds,
} from './tokens/token-rules.ts'
import type { Tokens } from './tokens/tokens.ts'

// What makes a number negative.

const negatingWords =
  'minus moins menos meno mínus miinus mínusz neg negative negativ negativo negativa negatif négatif eksi минус мінус μείον âm'
    .concat(' מינוס سالب ناقص')
    .split(' ')
    .flatMap((one) => [one, one.charAt(0).toUpperCase() + one.slice(1), one.toUpperCase()])
const joinedNegations = ['负', '負', 'マイナス', '零下', 'ลบ', '마이너스', '음수'].map(joinedText)
const gap = either(kind('space', 'currency'), text('*', '_', '(', '{', '`', '~'))

/** A word such as minus, with what may stand between it and the number. */
export const negation = either(
  sequence(
    text(...negatingWords),
    maybe(behind(words('neg Neg')), '.'),
    many(gap, { least: 1, most: 5 }),
  ),
  sequence(either(...joinedNegations), many(gap, { most: 3 })),
)

const letter = kind('word', 'joined')
/** In "8 minus 5" and "8 - 5" the 5 is subtracted. */
const subtracts: Rule = (tokens, at) =>
  tokens.kind(at - 1) === 'space' && operand(tokens, at - 2) !== undefined ? at : undefined
const negates = sequence(not(behind(letter)), not(subtracts), negation)

const dash = text(...dashes)
/** A dash behind a word, a number or a bracket joins or subtracts, unless it stands as in "8 -5". */
const isSign = sequence(not(behind(either(letter, operand, text('—', ...dashes)))), sign, not(dash))
const signs = sequence(
  either(sequence(not(subtracts), isSign, maybe(blank)), isSign),
  maybe(currencySign),
  maybe('('),
)

/** The signs before a number that begins here. */
export function signsAt(
  tokens: Tokens,
  start: number,
): { readonly isNegative: boolean; readonly end: number } {
  if (tokens.kind(start) === 'digits') return { isNegative: false, end: start }
  const behindWord = negates(tokens, start) ?? start
  const end = signs(tokens, behindWord) ?? behindWord
  const isMinus = end > behindWord && tokens.text(behindWord) !== '+'
  return { isNegative: behindWord > start || isMinus, end }
}

const belowZero = sequence(words('below under'), ' ', 'zero', wordEnds)
const leaves = either(
  kind('digits', 'end'),
  text('.', ';', '!', '?'),
  whose((said) => said.includes('\n')),
)

/** Whether degrees below zero follow, in the same sentence and not far from here. */
export function isBelowZero(tokens: Tokens, at: number): boolean {
  // Eight words.
  let end = at
  while (end < at + 16 && leaves(tokens, end) === undefined) end++
  for (let one = at; one < end; one++) if (belowZero(tokens, one) !== undefined) return true
  return false
}
