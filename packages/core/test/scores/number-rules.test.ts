import { numeric } from '@osmosis/core/scores'
import { describe, expect, it } from 'vitest'

/** No number is farther from 0 than this, so that any number passes. */
const anyNumber = { tolerance: 1e300 }

describe('numeric', () => {
  it.each([
    '1/2x',
    '2 1/2x',
    '9/277π',
    '10^{6}x',
    '10**6x',
    '1 × 10^{6}n',
    '12 345x',
    '2x^{3}',
    '2^{n_{1} + 1}',
    'x^1234567890',
    'a_{the index of a part, which is rather long, and 5}',
    '((a + 1) + 2)^2',
    '75%√2',
  ])('%j is one expression, and no part of it is a number', (text) => {
    expect(numeric(text, '0', anyNumber)).toBe(0)
  })

  it.each([
    ['12,300 of $1 234 m', '1234000000', 'an amount of money has thousands'],
    ['$2 1/2 m', '2500000', 'an amount of money has fractions'],
    ['£5e2 K', '500000', 'an amount of money has exponents'],
    ['MOINS 5', '-5', 'words negate in any case'],
    ['5 degrees, as the thermometer outside showed, below zero', '-5', 'the sentence says so'],
    ['8\n\n\n\n- 5', '5', 'a dash of a list is no sign'],
    ['3 million원', '3000000', 'an ending follows a word that scales'],
    ['1k万', '10000000', 'each word scales, also without a space between them'],
    ['3,14是5', '5', 'a script without spaces ends the part of a number'],
    ['x^2是5', '5', 'a script without spaces ends an exponent'],
    ['**5** 3 left', '3', 'stars end emphasis'],
    ['零下 €12', '-12', 'a currency may stand behind every word that negates'],
    ['$3 constructor', '3', 'no word is a letter'],
    ['3 Marvel films', '3', 'a word that begins as a month is none'],
    ['3 192.168.0.1', '3', 'an address is no group of thousands'],
    ['2 3/4', '2.75', 'a part is less than 1'],
  ])('%j is read as %s: %s', (text, value) => {
    expect(numeric(text, value)).toBe(1)
  })

  it.each(['_5 May 2024_', '5 pm입니다', '2 3/2', '2024-05Sept. 2024'])(
    '%j has no number',
    (text) => {
      expect(numeric(text, '0', anyNumber)).toBe(0)
    },
  )

  it('a point ends a sentence behind groups of thousands', () => {
    expect(numeric('Es sind 1.234.567.', '1234567', { decimalComma: true })).toBe(1)
  })

  it.each(['{{{5}}}', '$$5$$', '5 किलोमीटर', '5 km人', '((5))'])(
    'a label may be %j, which is 5',
    (label) => {
      expect(numeric('5', label)).toBe(1)
    },
  )

  it.each(['1.234.5', '1.234 567', '2^{3', '10^6x', '5 km million'])(
    'a label may not be %j',
    (label) => {
      expect(() => numeric('5', label, { decimalComma: true })).toThrow(
        expect.objectContaining({ code: 'invalid_dataset' }),
      )
    },
  )
})
