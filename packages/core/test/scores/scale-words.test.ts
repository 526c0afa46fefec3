import { numeric } from '@osmosis/core/scores'
import { describe, expect, it } from 'vitest'

/** Words that scale, and the zeros that each writes. */
const zerosOf: Readonly<Record<number, readonly string[]>> = {
  1: ['tens'],
  2: ['hundred', 'Hundred', 'hundreds', 'Hundert', 'honderd', 'сотни', '百'],
  3: ['thousand', 'THOUSAND', 'k', 'tsd', 'Tsd.', 'Tausend', 'mila', 'milliers', 'duizend', 'tys.'],
  4: ['万', '萬', '만', 'หมื่น', 'thousand tens'],
  5: ['lakh', 'Lakhs', 'lac', 'लाख', 'hundred thousand'],
  6: ['million', 'Millions', 'mn', 'mln', 'Mio', 'Mio. €', 'miljoen', 'milioni', 'millones', 'млн'],
  7: ['crore', 'करोड़', '千万'],
  8: ['亿', '億', '억'],
  9: ['billion', 'bn', 'mrd', 'Mrd.', 'mld', 'milliards', 'Milliarden', 'млрд', 'thousand million'],
  12: ['trillion', 'tn', 'lakh crore', '万亿', 'million million'],
  15: ['quadrillion'],
}
const read = Object.entries(zerosOf).flatMap(([zeros, words]) =>
  words.map((word) => [word, `3${'0'.repeat(Number(zeros))}`] as const),
)

/** Words that scale by something that they do not tell. */
const unclear = [
  'M',
  'MM',
  'B',
  'b',
  'mil',
  'mill',
  'bln',
  'Bio.',
  'billones',
  'Billionen',
  'bilhões',
  'bi',
  'mil millones',
  'milionów',
  'miljoonaa',
  'millió',
  'tisíc',
  'cientos',
  'gazillion',
  'gross',
  'myriad',
  'grand',
  'score',
  'tenths',
  'hundredths',
  'halves',
  'thirds',
  'quarters of it',
  'per thousand',
  'pro mille',
  '‰',
  'M€',
  'TEUR',
  '兆',
  'cr',
]

/** Units, which scale nothing. */
const units = [
  'km',
  'm',
  'mm',
  'mg',
  'ms',
  'MB',
  'kg',
  'MHz',
  'mi',
  'K',
  'T',
  'kWh',
  '千米',
  '千克',
  'Euro',
  'millimetres',
  'milliamps',
  'millibars',
  'millionaires',
  'military men',
  'cents',
  'tons',
  'billiard balls',
  'third graders',
  'quarters',
  'grandchildren',
  'bins',
  'tenants',
  'mills',
]

/** The ways in which an answer has a number with something behind it. */
const answers = [
  (text: string) => `The answer is ${text}`,
  (text: string) => `Not 12 or 70. It is ${text}!`,
  (text: string) => `\\boxed{${text}}`,
]

describe('a word behind a number', () => {
  it.each(read)('%s multiplies it: 3 of it are %s', (word, value) => {
    for (const answer of answers) {
      expect([word, numeric(answer(`3 ${word}`), value)]).toEqual([word, 1])
      expect([word, numeric(answer(`3 ${word}`), '3')]).toEqual([word, 0])
    }
    expect(numeric(value, `3 ${word}`)).toBe(1)
  })

  it.each(unclear)('%s multiplies it by what nobody knows, so the answer has no number', (word) => {
    for (const answer of answers) {
      for (const value of ['3', '12', '70', '300', '3000', '3000000', '3e9', '3e12', '0.03']) {
        expect([word, value, numeric(answer(`3 ${word}`), value)]).toEqual([word, value, 0])
      }
    }
    expect(() => numeric('3', `3 ${word}`)).toThrow(
      expect.objectContaining({ code: 'invalid_dataset' }),
    )
  })

  it.each(units)('%s is a unit, and 3 of it are 3', (word) => {
    for (const answer of answers.slice(0, 2)) expect(numeric(answer(`3 ${word}`), '3')).toBe(1)
  })

  it.each([
    ['3k', '3000'],
    ['3K', '3000'],
    ['3万人', '30000'],
    ['3백만원', '3000000'],
    ['3-thousand', '3000'],
    ['**3** million', '3000000'],
    ['$3$ million', '3000000'],
    ['3 USD million', '3000000'],
    ['3~\\text{billion}', '3000000000'],
    ['3&nbsp;million', '3000000'],
    ['3 dozen eggs', '36'],
    ['2 1/2 dozen', '30'],
    ['½ million', '500000'],
    ['-3 bn', '-3000000000'],
  ])('is found in %j, which is %s', (text, value) => {
    expect(numeric(`It is ${text}`, value)).toBe(1)
    expect(numeric(`It is ${text}`, '3')).toBe(0)
  })

  it.each([
    ['3 hundred and 5', '305'],
    ['3万5千', '35000'],
    ['3万5000元', '35000'],
    ['3 million 500 thousand', '3500000'],
    ['minus 3 hundred 5', '-305'],
    ['between 2 million and 3 million', '3000000'],
    ['3 thousand. 5', '5'],
  ])('ends the number or continues it: %j is %s', (text, value) => {
    expect(numeric(text, value)).toBe(1)
  })
})

describe('a letter behind an amount of money', () => {
  it.each([
    ['$3k', '3000'],
    ['$3 K', '3000'],
    ['£3m', '3000000'],
    ['US$3M', '3000000'],
    ['€3.0 M', '3000000'],
    ['$3B', '3000000000'],
    ['USD 3 b', '3000000000'],
    ['$3T', '3000000000000'],
    ['3 k€', '3000'],
  ])('multiplies it: %j is %s', (text, value) => {
    expect(numeric(`It costs ${text}.`, value)).toBe(1)
    expect(numeric(`It costs ${text}.`, '3')).toBe(0)
  })

  it.each(['$3 m$', '$3 \\text{ m}$', '$3\\,\\mathrm{K}$', '$3$ m', '3 m', '3 K'])(
    'is a unit where there is no money: %j',
    (text) => {
      expect(numeric(`It is ${text}`, '3')).toBe(1)
    },
  )
})

describe('a word that negates', () => {
  it.each([
    'minus 5',
    'Minus 5',
    'MINUS 5',
    'negative 5',
    'a negative $5$',
    'negative **5**',
    'neg. 5',
    'moins 5',
    'menos 5',
    'meno 5',
    'минус 5',
    '负5',
    'マイナス5',
    '零下5',
    'eksi 5',
    '5 below zero',
    '5 degrees below zero',
    '-5 below zero',
    '-(5)',
    '{-}5',
    '\u22125',
    '\u20135',
    '\uFF0D5',
    '\uFE635',
    '&minus;5',
  ])('is read: %j is -5', (text) => {
    expect(numeric(`It is ${text}`, '-5')).toBe(1)
    expect(numeric(`It is ${text}`, '5')).toBe(0)
  })

  it.each(['8 minus 5', '8 - 5', 'plus 5'])(
    'subtracts nothing: the last number of %j is 5',
    (text) => {
      expect(numeric(text, '5')).toBe(1)
    },
  )

  it.each(['3 \u00B1 5', '3 plus or minus 5', '3 plus/minus 5'])(
    'is no deviation: %j is 3',
    (text) => {
      expect(numeric(text, '3')).toBe(1)
    },
  )
})

it.each(['11,\\! 111', '11\\,\\! 111', '11{,} 111', '11,\\negthinspace 111', '11 \\! ,111'])(
  'space that LaTeX takes back does not part a number: %j',
  (text) => {
    expect(numeric(`\\boxed{${text}}`, '11111')).toBe(1)
    expect(numeric(`It is ${text}`, '11111')).toBe(1)
  },
)
