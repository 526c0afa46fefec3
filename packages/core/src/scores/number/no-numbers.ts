import { isGrouped } from './amounts.ts'
import { negation } from './signs.ts'
import {
  anyDigits,
  ahead,
  behind,
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
  words,
} from './tokens/rules.ts'
import {
  dashes,
  exponent,
  fractionCommand,
  group,
  inWord,
  numeral,
  sign,
  space,
  starredPower,
  wordEnds,
} from './tokens/token-rules.ts'
import type { Kind, Tokens } from './tokens/tokens.ts'

// What has digits and is no number.

const amount = sequence(anyDigits, many(either(anyDigits, text('.', ','))))

const notSpace: Rule = (tokens, at) =>
  ['space', 'end'].includes(tokens.kind(at)) ? undefined : at + 1
const address = sequence(words('http https'), ':', '/', '/', many(notSpace, { least: 1 }))

const month = sequence(
  words(
    'Jan Feb Mar Apr May Jun Jul Aug Sep Sept Oct Nov Dec January February March April June July August September October ' +
      'November December Januar Februar Juni Juli',
  ),
  maybe('.'),
)
const year = sequence(digits(4, 4), wordEnds)
const yearBehind = sequence(maybe(','), ' ', year)
const ordinal = maybe(words('st nd rd th'))
const day = sequence(digits(1, 2), ordinal)
const ofMonth = sequence(maybe(' ', 'of'), ' ', month, maybe(yearBehind), wordEnds)
/** "May 5 people" has no day, and "March 5,000" neither. */
const isCounted = either(
  sequence(many(text('.', ',', ':')), anyDigits),
  sequence(
    kind('space'),
    whose((said) => /^\p{Ll}/u.test(said)),
  ),
)
const monthAndDay = sequence(day, either(yearBehind, not(isCounted)))
const monthFirst = sequence(month, ' ', either(monthAndDay, year), wordEnds)
const yearAndMonth = sequence(
  whose((said) => /^[12]\d{3}$/.test(said)),
  '-',
  whose((said) => /^[01]\d$/.test(said)),
)

const halfOfDay = either(
  words('am pm AM PM Am Pm aM pM'),
  sequence(words('a p A P'), '.', words('m M'), '.'),
)
const timeOfDay = sequence(maybe(':', digits(2, 2)), maybe(space), halfOfDay)
const fullHour = sequence(' ', 'o', text("'", '’'), 'clock')
const timeZone = sequence(words('UTC GMT'), sign, digits(1, 2))

const version = sequence(
  either(sequence(words('ver Ver vers Vers'), '.'), words('version Version ver Ver')),
  kind('space'),
  anyDigits,
  many(either(kind('word'), anyDigits, text('_', '.', '-'))),
)

/** Dates, times, versions and addresses have two separators or a colon. */
function parted(by: Rule, least: number): Rule {
  return many(sequence(by, anyDigits), { least })
}
const wordPart = sequence(either(kind('word'), numeral), inWord)
const separated = sequence(
  anyDigits,
  either(
    parted(text('.'), 2),
    parted(text(...dashes), 2),
    parted(text('/'), 2),
    parted(text(':'), 1),
  ),
  inWord,
  many(sequence(text('-', '+', '.', ':'), wordPart)),
)
/** With a decimal comma, 1.234.567 is a number. */
const grouped: Rule = (tokens, at) => (isGrouped(tokens, at) ? at : undefined)

const deviation = sequence(
  either(
    text('±'),
    sequence('+', '/', '-'),
    sequence(words('plus Plus'), either(sequence(space, 'or', space), text('/', '-')), 'minus'),
    // The amount of a unit, such as "per 100 g".
    sequence('per', kind('space')),
  ),
  maybe(kind('space')),
  amount,
)

const starred = sequence(starredPower, not(sequence('*', '*')))
const numberPart = sequence(numeral, inWord)
/** H2O, x_1, gpt-4.1 and km^2. */
const wordWithDigits = sequence(
  not(sequence(negation, maybe(text('+', '.', ...dashes)), anyDigits)),
  kind('word'),
  inWord,
  many(
    either(
      sequence(text('/', ...dashes), numberPart),
      sequence(behind(numeral), text('.', ':'), numberPart),
    ),
  ),
  maybe(either(sequence(behind(text('_')), group('{'), maybe(starred)), starred)),
)
const index = sequence('_', group('{'))

// Parts of expressions: roots, fractions and powers of something else, divisors.
const root = sequence('√', maybe(space), either(group('{'), group('('), amount))
const fraction = sequence(fractionCommand, maybe(space), group('{'), maybe(space), group('{'))
const powerOfBracket = sequence(group('('), maybe(space), exponent)
const divisor = sequence('/', amount)

/** By the kind of the token with which they begin. */
const rules: Partial<Record<Kind, Rule>> = {
  digits: either(
    sequence(digits(1, 2), either(sequence(ordinal, ofMonth), timeOfDay, fullHour)),
    sequence(ahead(separated), not(grouped), separated),
    yearAndMonth,
  ),
  word: either(address, monthFirst, timeZone, version, deviation, wordWithDigits),
  underscore: index,
  space: kind('space'),
  joined: sequence(not(negation), kind('joined')),
  symbol: either(deviation, root, fraction, powerOfBracket, exponent, divisor),
}

/** Where something ends that has digits and is no number. */
export function noNumber(tokens: Tokens, at: number): number | undefined {
  return rules[tokens.kind(at)]?.(tokens, at)
}

/** What is left of something that begins as a number and is none, as 2x and 3,14 without a decimal comma. */
export const numeralRest = sequence(
  numeral,
  many(either(kind('word'), numeral, text('_', '.', ',', ':', "'", '’', '/', '-'))),
)
