import { scaleAt } from './scale-words.ts'
import {
  ahead,
  either,
  kind,
  many,
  maybe,
  not,
  type Rule,
  sequence,
  text,
  words,
} from './tokens/rules.ts'
import { exponent, space, starredPower, wordEnds } from './tokens/token-rules.ts'

const prefixes = ['', ...'da Y Z E P T G M k h d c m µ μ n f'.split(' ')]
const prefixed = 'm g s A mol cd Hz N Pa J W Wh C V F Ω S T H L l eV bit cal bar Ah'.split(' ')
const others = (
  'KB MB GB TB kB KiB MiB GiB TiB kiB kbps Mbps Gbps min h hr hs hrs sec secs d day days wk wks yr yrs mo mi ft in yd lb lbs ' +
  'oz gal mph kph kmh fps rpm dpi ppm ppb px pt pts deg rad ha atm mmHg psi dB USD EUR GBP JPY CNY INR CHF'
).split(' ')
const symbols = words(
  [...others, ...prefixes.flatMap((prefix) => prefixed.map((one) => prefix + one))].join(' '),
)

/** A unit that may follow a number without a space: 5km and 5m2, but not 2x. */
export const unitSymbol = sequence(symbols, maybe(text('2', '3')), wordEnds)

const wordOrWords = many(kind('word', 'joined'))
const letters: Rule = (tokens, at) => {
  const end = wordOrWords(tokens, at) ?? at
  return tokens.between(at, end).length < 3 ? undefined : end
}
const joinsSentences = sequence(words('and or to plus minus times but is if'), wordEnds)
const name = sequence(
  either(
    words('K a an in of sq'),
    sequence(
      not(joinsSentences),
      not((tokens, at) => scaleAt(tokens, at)?.end),
      letters,
    ),
  ),
  wordEnds,
)
const temperature = sequence('°', maybe(maybe(space), words('C F'), wordEnds))
const unit = sequence(
  either(sequence(either(name, unitSymbol), maybe('.')), temperature, kind('currency')),
  maybe(either(sequence(maybe(space), exponent), starredPower)),
)
const begins = either(
  sequence(maybe(space), ahead(either(text('°'), kind('currency')))),
  ahead(unitSymbol),
  space,
)
const joins = either(
  sequence(maybe(space), text('/', '·', '⋅', '×'), maybe(space)),
  space,
  text('-'),
)

/** Units behind a number that is a text as a whole: `km/h`, `dollars a day`. */
export const units = sequence(begins, unit, many(sequence(joins, unit), { most: 4 }))
