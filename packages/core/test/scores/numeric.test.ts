import { numeric } from '@osmosis/core/scores'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../../test/kit/index.ts'

/** A number, as a label and in every way in which an answer may write it. */
interface Written {
  readonly label: string
  readonly ways: readonly string[]
}

const whole = fc.integer({ min: 0, max: 999_999_999 })

/** Groups of three digits, with this between them. */
function grouped(value: number, separator: string): string {
  return String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, () => separator)
}

function raised(power: number): string {
  return String(power).replaceAll(/./g, (sign) => '⁰¹²³⁴⁵⁶⁷⁸⁹⁻'['0123456789-'.indexOf(sign)] ?? '')
}

const amounts: fc.Arbitrary<Written> = fc.oneof(
  whole.map((n) => ({
    label: String(n),
    ways: [
      ...[',', '_', "'", ' ', '\u00A0', '\u202F', '{,}', '\\,', '\\ '].map((by) => grouped(n, by)),
      `${n}.0`,
      `${n}e0`,
    ],
  })),
  fc.tuple(whole, fc.stringMatching(/^\d{1,5}$/)).map(([n, part]) => ({
    label: `${n}.${part}`,
    ways: [`${n}.${part}`, `${grouped(n, ',')}.${part}0`, `${n}.${part}E+0`],
  })),
  fc.tuple(fc.integer({ min: 1, max: 99 }), fc.integer({ min: -9, max: 12 })).map(([n, power]) => ({
    label: `${n}e${power}`,
    ways: [
      `${n}e${power}`,
      `${n} \\times 10^{${power}}`,
      `${n} × 10^${power}`,
      `${n} \\cdot 10^{ ${power} }`,
      `${n}x10^${power}`,
      `${n}*10**${power}`,
      `${n} × 10<sup>${power}</sup>`,
      `${n} × 10${raised(power)}`,
    ],
  })),
  fc.integer({ min: 0, max: 15 }).map((power) => ({
    label: `1${'0'.repeat(power)}`,
    ways: [`10^${power}`, `10^{${power}}`, `10**${power}`],
  })),
  fc.tuple(whole, fc.integer({ min: 2, max: 999 })).map(([above, below]) => ({
    label: String(above / below),
    ways: ['\\frac', '\\dfrac', '\\tfrac ', '\\cfrac']
      .map((command) => `${command}{${above}}{ ${below} }`)
      .concat(`${above}/${below}`, `${above} / ${below}`, `${above}\u2044${below}`),
  })),
  fc
    .tuple(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 2, max: 9 }), fc.nat())
    .map(([units, below, above]) => [units, (above % (below - 1)) + 1, below] as const)
    .map(([units, above, below]) => ({
      label: String(units + above / below),
      ways: [`${units} ${above}/${below}`, `${units}\\frac{${above}}{${below}}`].concat(
        `${units}\\frac${above}${below}`,
        `${units} \\tfrac{${above}}${below}`,
      ),
    })),
  fc
    .tuple(fc.nat(99), fc.constantFrom<[string, number]>(['½', 0.5], ['¾', 0.75], ['⅕', 0.2]))
    .map(([units, [sign, part]]) => ({
      label: String(units + part),
      ways: [`${units}${sign}`, `${units} ${sign}`],
    })),
)

const signed: fc.Arbitrary<Written> = fc
  .tuple(amounts, fc.constantFrom('', '-', '\u2212', '\u2013', '- ', '+', '-$', '\u2013 €'))
  .map(([{ label, ways }, sign]) => ({
    label: /^[-\u2212\u2013]/.test(sign) ? `-${label}` : label,
    ways: ways.map((way) => `${sign}${way}`),
  }))

const boxes = [
  (way: string) => `\\boxed{${way}}`,
  (way: string) => `$\\boxed{ ${way} }$.`,
  (way: string) => `\\fbox{${way}}`,
  (way: string) => `\\boxed{x = ${way}}`,
  (way: string) => `\\boxed{\\left(${way}\\right)}`,
  (way: string) => `\\boxed{$${way}$}`,
  (way: string) => `\\boxed{{${way}}}`,
  (way: string) => `\\boxed{\\displaystyle ${way}}`,
]
const styles = ['\\textbf', '\\mathrm', '\\mathbf', '\\text', '\\boldsymbol', '\\emph']

const units = [
  'km',
  'km^2',
  'm/s^2',
  'km²',
  'kg m^{-3}',
  'km**2',
  'cm^ 3',
  'ft2',
  '\\text{ km}^2',
  '\\,\\mathrm{m/s^{2}}',
  '$',
  'apples',
  'dollars a day',
  'square metres',
]

/** What has digits and is no number. */
const noNumbers = [
  '2024-01-05',
  '01/05/2024',
  '5.1.2024',
  '5 May 2024',
  'May 5, 2024',
  'March 2024',
  'December 3rd.',
  '2024-01-05T10:30:00Z',
  '12:30',
  '12:30:45',
  '5 pm',
  '10:15 a.m.',
  "7 o'clock",
  'v1.2',
  '1.2.3',
  '2.0.1-rc1',
  'version 3.1',
  '1.0.0-beta.2',
  '10:30 UTC+2',
  '10.0.0.1',
  'gpt-4.1',
  'Qwen2.5-7B',
  'x_1',
  'x_{12}',
  'H2O',
  'x^2',
  '(a + 1)^2',
  '± 0.5',
  'per 100 g',
  '3,14',
  '2x',
  '3\\pi',
  '2\\sqrt{3}',
  '\\sqrt{16}',
  '\\frac{\\pi}{2}',
  'n/2',
  'https://example.com/7',
]

describe('a number', () => {
  it('is itself in every notation and box', () => {
    const box = fc.constantFrom((way: string) => way, ...boxes)
    fc.assert(
      fc.property(signed, box, fc.nat(), ({ label, ways }, put, choice) => {
        const way = ways[choice % ways.length] ?? ''
        expect([way, label, numeric(put(way), label)]).toEqual([way, label, 1])
        expect([way, numeric(label, way)]).toEqual([way, 1])
        const other = label.replace(/\d/, (first) => `7${first}`)
        expect([way, numeric(put(way), other)]).toEqual([way, 0])
      }),
      { numRuns: runs(1000) },
    )
  })

  it('is itself in every style', () => {
    fc.assert(
      fc.property(
        whole,
        fc.constantFrom(...styles),
        fc.constantFrom(...styles),
        (n, one, other) => {
          expect(numeric(`\\boxed{${one}{${other}{${n}}}}`, n)).toBe(1)
          expect(numeric(`It is -${one}{${n + 1}}.`, -n - 1)).toBe(1)
        },
      ),
    )
  })

  it('is itself with any unit, which gives nothing of its own', () => {
    fc.assert(
      fc.property(signed, fc.constantFrom(...units), ({ label, ways: [way = ''] }, unit) => {
        const answer = `${way} ${unit}`
        for (const text of [answer, `It is ${answer}.`, `\\boxed{${answer}}`]) {
          expect([text, numeric(text, label)]).toEqual([text, 1])
        }
        expect(numeric(label, answer)).toBe(1)
      }),
    )
  })

  it('does not change with the text around it', () => {
    const words = fc
      .array(
        fc.constantFrom(
          'so',
          'the result',
          'is:',
          '**',
          '(',
          '"',
          '=',
          'Wert',
          '答案是',
          '—',
          '\n',
        ),
      )
      .map((all) => all.join(' '))
    const around = fc.array(fc.constantFrom(...noNumbers), { maxLength: 3 })
    fc.assert(
      fc.property(signed, around, words, words, around, (written, before, a, b, after) => {
        const { label, ways } = written
        for (const way of ways) {
          const text = `${before.join('; ')}; ${a} ${way}; ${b} ${after.join(', ')}`
          expect([text, numeric(text, label)]).toEqual([text, 1])
        }
      }),
    )
  })

  it.each(noNumbers)('is not in %j', (text) => {
    for (const [digits] of text.matchAll(/\d+(?:[.,]\d+)?/g)) {
      expect(numeric(`It is ${text}`, digits.replace(',', '.'))).toBe(0)
      expect(numeric(`\\boxed{${text}}`, digits.replace(',', '.'))).toBe(0)
    }
    expect(() => numeric('1', text)).toThrow(expect.objectContaining({ code: 'invalid_dataset' }))
  })

  it.each([
    ['\u20135', '5'],
    ['\u20125', '5'],
    ['\u20115', '5'],
    ['- 5', '5'],
    ['2\\frac{1}{2}', '10.5'],
    ['2 1/2', '0.5'],
    ['12 345', '345'],
    ['42 km^2', '2'],
    ['10^6', '10'],
    ['1.5 \\times 10^3', '3'],
    ['5 million', '5'],
    ['1/0', '0'],
    ['4, then 1e99999', '4'],
    ['\\boxed{x = 5, y = 6}', '6'],
    ['\\boxed{5 \\text{ or } 6}', '5'],
    ['\\boxed{2x}', '2'],
    ['\\boxed{x \\le 5}', '5'],
    ['9007199254740993', '9007199254740992'],
    ['0.5%', '50'],
  ])('in %j is not %j', (answer, label) => {
    expect(numeric(answer, label)).toBe(0)
  })

  it.each([
    ['50%', '50'],
    ['50\\%', '0.5'],
    ['0.07', '7 percent'],
    ['答案是5。', '5'],
    ['10$^6$', '1000000'],
    ['3 million dollars', '3000000'],
    ['8 - 5', '5'],
    ['\\boxed 7', '7'],
    ['\\boxed{\\textcolor{red}{7}}', '7'],
    ['\\boxed{\\Large\\mathbf 7}', '7'],
    ['\\boxed{f(2,3) = 6}', '6'],
    ['\\boxed{90^\\circ}', '90'],
    ['\\boxed{20^{\\circ}\\text{C}}', '20'],
    ['１２', '12'],
  ])('in %j is %j', (answer, label) => {
    expect(numeric(answer, label)).toBe(1)
  })
})

describe('a label', () => {
  it.each([
    '3 or 4',
    'x = 5',
    '5 and more',
    '3-5',
    '1,2',
    '\\boxed{2} \\boxed{3}',
    'so 9 * 2\n#### 18',
  ])('%j is not one number: it is refused', (label) => {
    expect(() => numeric('5', label)).toThrow(expect.objectContaining({ code: 'invalid_dataset' }))
  })

  it.each(['3,14', '0,125', '1.234,5', '-7,5 km'])(
    '%j has a decimal comma: it is refused without the option',
    (label) => {
      expect(() => numeric('5', label)).toThrow(/decimalComma: true/)
      const plain = label.replace('.', '').replace(',', '.')
      expect(numeric(plain, label, { decimalComma: true })).toBe(1)
      expect(numeric(`Es sind ${label}.`, parseFloat(plain), { decimalComma: true })).toBe(1)
    },
  )
})

it('reads a long answer in one pass', { tags: 'slow' }, () => {
  const start = performance.now()
  for (const part of [
    '1',
    '1,',
    '1-',
    '1 1/',
    '{',
    '\\frac{',
    '\\text{',
    '√{',
    'km^{',
    '\\boxed{',
  ]) {
    numeric(part.repeat(50_000), '1')
  }
  expect(performance.now() - start).toBeLessThan(20_000)
})
