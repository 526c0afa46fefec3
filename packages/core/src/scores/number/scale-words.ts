import { type ExactNumber, multiplied } from './exact-number.ts'
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
} from './tokens/rules.ts'
import {
  currency,
  currencyCodes,
  joinedText,
  numeral,
  space,
  wordEnds,
} from './tokens/token-rules.ts'
import type { Tokens } from './tokens/tokens.ts'

/**
 * Words that multiply the number before them, each with one meaning in all languages that have it. `joined` are those that
 * no space parts from what follows them, in Chinese, Japanese, Thai and Korean.
 */
const factors: readonly (readonly [factor: bigint | undefined, words: string, joined?: string])[] =
  [
    [10n, 'ten tens', '十'],
    [
      12n,
      'dozen dozens doz dz dutzend douzaine douzaines docena docenas dussin tuzin дюжина дюжины дюжин',
    ],
    [100n, 'hundred hundreds hundert honderd сотня сотни сотен', '百 佰 ร้อย 백'],
    [
      1000n,
      'thousand thousands thou thsd tsd tausend mila milliers duizend tusen tusind tys tis тыс тысяча тысячи тысяч ribu nghìn ngàn हजार ألف آلاف هزار',
      '千 仟 พัน 천',
    ],
    [10_000n, '', '万 萬 หมื่น 만'],
    [100_000n, 'lakh lakhs lac lacs लाख', 'แสน'],
    [
      10n ** 6n,
      'million millions mn mln mio millionen miljoen miljoner milione milioni millón millones milhão milhões milyon млн миллион миллиона миллионов triệu juta מיליון مليون',
      'ล้าน',
    ],
    [10n ** 7n, 'crore crores करोड़'],
    [10n ** 8n, '', '亿 億 억'],
    [
      10n ** 9n,
      'billion billions bn mrd mlrd mld milliard milliards milliarde milliarden miliardo miliardi miljard miljarder milyar млрд миллиард миллиарда миллиардов tỷ מיליארד مليار',
    ],
    [10n ** 12n, 'trillion trillions tn trn трлн триллион триллиона триллионов'],
    [10n ** 15n, 'quadrillion quadrillions'],
    [10n ** 18n, 'quintillion quintillions'],
    // A million, or a million millions.
    [undefined, '', '兆 조'],
  ]

/**
 * Words that multiply by something that they do not tell: `mil` is a thousand, a million or a thousandth of an inch, `billón`
 * is not a billion.
 */
const unclear = new Set(
  (
    'mil mils mill mille bil bio bln bi md mds mia cr bin mii rb jt gross score googol myriad myriads grands halves ' +
    'tenth tenths thirds fourths fifths sixths sevenths eighths ninths hundredth hundredths thousandth thousandths'
  ).split(' '),
)
/** The same in the inflections of languages: forms of whole words, in small letters. */
const unclearForms: readonly RegExp[] = [
  /^\p{L}{0,9}illion(?:s|ths?)?$/u,
  /^p(?:er|ro|or|our)(?:mille?|mil|thousand)$/,
  /^(?:hunder|tausen|centen|cient|centin|tis[íi]c)/,
  /^(?:мил+и|мільй|мільяр|бил+ио|трил+и|трильй|тысяч|тисяч|εκατ|δισ|χιλ)/,
]
/** Inflections of million and billion, which languages use for different numbers. Who has a million is no number. */
const unclearMillions: readonly RegExp[] = [
  /^m[iy]l+[ijy]?(?:[oóõ]{1,2}a?[ne]|[oó]$|ão|hõ|[aáā]r(?!c|der))/,
  /^(?:b|tr|kvadr|kwadr|quadr)[iy]l+[ijyh]?(?:[oóu]n|oen|õe|ão|iã|iõ)/,
]
const millionaire = /air|är|aer|aris/

/** Two words that share instead, as "per mille" and "half of". */
const pairs = sequence(
  either(
    sequence(word(/^p(?:er|ro|or|our)$/), space, word(/^(?:mille?|mil|thousand)$/)),
    sequence(
      word(/^(?:half|third|quarter|(?:four|fif|six|seven|eigh|nin)th)s?$/),
      ' ',
      word(/^of$/),
    ),
    sequence(word(/^grand$/), not(sequence(maybe(space), kind('word', 'joined')))),
  ),
  wordEnds,
)

/** What follows one of them changes it: 3千米 is 3 km, 3兆赫 is 3 MHz, and 3조각 are three pieces. */
const notBefore: Readonly<Record<string, readonly string[]>> = {
  千: ['米', '克', '瓦', '卡', '赫', '帕', '焦', '伏', '字', '升'],
  百: ['帕'],
  兆: ['赫', '字', '瓦'],
  조: ['각', '개'],
}

const factorOf = new Map(
  factors.flatMap(([factor, words]) => listed(words).map((one) => [one, whole(factor)] as const)),
)
/** By the token with which they begin. */
const joinedWords = Map.groupBy(
  factors.flatMap(([factor, , joined = '']) =>
    listed(joined).map((one) => ({
      first: one.charAt(0),
      factor: whole(factor),
      rule: sequence(joinedText(one), not(text(...(notBefore[one] ?? [])))),
    })),
  ),
  ({ first }) => first,
)

function listed(words: string): readonly string[] {
  return words
    .normalize('NFC')
    .split(' ')
    .filter((one) => one !== '')
}

function whole(above: bigint | undefined): ExactNumber | undefined {
  return above === undefined ? undefined : { above, below: 1n }
}

function word(form: RegExp): Rule {
  return whose((said) => form.test(said.toLowerCase()))
}

/** What multiplies the number before it. */
export interface NumberScale {
  /** Undefined when it is not clear. */
  readonly factor: ExactNumber | undefined
  readonly end: number
}

const shares = text('‰', '‱')
const emphasis = many(text('*', '_', '$', '`', '~'), { most: 3 })
/** What may stand between a number and its word, or between two words: a space, a dash, emphasis, a currency. */
const gap = sequence(
  emphasis,
  maybe(either(space, text('-'))),
  maybe(currency, maybe(space)),
  emphasis,
)

/** Up to four words that multiply, such as `hundred thousand`. */
export function scaleAt(tokens: Tokens, at: number): NumberScale | undefined {
  let scale: NumberScale | undefined
  for (let count = 0; count < 4; count++) {
    const end: number = scale?.end ?? at
    const next = scaleWord(tokens, gap(tokens, end) ?? end)
    if (next === undefined) return scale
    const factor = scale === undefined ? next.factor : multiplied(scale.factor, next.factor)
    scale = { factor, end: next.end }
  }
  return scale
}

function scaleWord(tokens: Tokens, at: number): NumberScale | undefined {
  for (const { factor, rule } of joinedWords.get(tokens.text(at)) ?? []) {
    const end = rule(tokens, at)
    if (end !== undefined) return { factor, end }
  }
  if (shares(tokens, at) !== undefined) return { factor: undefined, end: at + 1 }
  if (tokens.kind(at) !== 'word') return undefined
  const letter = scaleLetter(tokens, at)
  if (letter !== undefined) return letter
  const small = tokens.text(at).toLowerCase()
  // A Korean ending may follow: 3 million원.
  const isWhole = numeral(tokens, at + 1) === undefined
  const factor = factorOf.get(small)
  if (isWhole && (factor !== undefined || isUnclear(small))) return { factor, end: at + 1 }
  const end = pairs(tokens, at)
  return end === undefined ? undefined : { factor: undefined, end }
}

function isUnclear(small: string): boolean {
  if (unclear.has(small) || unclearForms.some((form) => form.test(small))) return true
  return unclearMillions.some((form) => form.test(small)) && !millionaire.test(small)
}

const thousand: ExactNumber = { above: 1000n, below: 1n }
const beforeMoney = sequence(maybe(space), not(text('$')), currency)
/** M is mega, million or molar: not clear. */
const letters = sequence(text('k', 'kk', 'M', 'MM', 'B', 'b'), wordEnds)
/** Behind a space K is kelvin. */
const joinedLetters = sequence(not(behind(kind('space'))), text('K', 'G'), wordEnds)
/** Only before a currency m is no metre and T no tesla. */
const moneyLetters = 'k K m M b B t T G'.split(' ')
const lettersOfMoney = either(
  sequence(text(...moneyLetters), beforeMoney),
  sequence(
    text(...moneyLetters.flatMap((one) => currencyCodes.map((code) => one + code))),
    wordEnds,
  ),
)
const anyLetter = either(letters, joinedLetters, lettersOfMoney)

function scaleLetter(tokens: Tokens, at: number): NumberScale | undefined {
  if (anyLetter(tokens, at) === undefined) return undefined
  const isThousand = /^[kK](?!k)/.test(tokens.text(at))
  return { factor: isThousand ? thousand : undefined, end: at + 1 }
}

const moneyZeros = new Map([
  ['k', 3n],
  ['m', 6n],
  ['b', 9n],
  ['t', 12n],
])
const behindSpace = maybe(space)
/** A part of a unit, as the m of m/s. */
const goesOnAsUnit = sequence(maybe(space), text('/', '^', '·', '⋅', '×'))

/** A letter behind an amount of money that begins at `start` and ends at `end`: there each of them is clear. */
export function moneyAt(tokens: Tokens, start: number, end: number): NumberScale | undefined {
  const at = behindSpace(tokens, end) ?? end
  const zeros = moneyZeros.get(tokens.text(at).toLowerCase())
  if (zeros === undefined || !isMoney(tokens, start)) return undefined
  if (wordEnds(tokens, at + 1) === undefined) return undefined
  if (goesOnAsUnit(tokens, at + 1) !== undefined) return undefined
  // Between two dollar signs stands a formula, and no amount.
  if (/^[^$\n]{0,80}\$/.test(tokens.between(at + 1, at + 82))) return undefined
  return { factor: { above: 10n ** zeros, below: 1n }, end: at + 1 }
}

function isMoney(tokens: Tokens, at: number): boolean {
  const before = space(tokens, at - 1) === undefined ? at - 1 : at - 2
  const name = tokens.text(before) === '.' ? before - 1 : before
  return currency(tokens, name) !== undefined && (name === before || tokens.text(name) === 'Rs')
}
