import { contains, exact, json, matches, numeric } from '@osmosis/core/scores'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

describe('exact', () => {
  it.each([
    ['Paris', 'Paris', 1],
    [' Paris\n', 'Paris', 1],
    ['paris', 'Paris', 0],
    ['', 'Paris', 0],
    ['cafe\u0301', 'caf\u00E9', 1],
    ['\u22125', '-5', 1],
    ['-5', '\u22125', 1],
    // A dash between two numbers is no minus.
    ['3\u20135', '3-5', 0],
  ])('of %j and the label %j is %d', (answer, label, score) => {
    expect(exact(answer, label)).toBe(score)
  })

  it('ignores case when asked', () => {
    expect(exact('PARIS', 'Paris', { ignoreCase: true })).toBe(1)
  })

  it.each([null, '', ' \n'])(
    'throws for the label %j, which an empty answer would have',
    (label) => {
      for (const score of [exact, contains, numeric, json]) {
        expect(() => score('', label)).toThrow(expect.objectContaining({ code: 'invalid_dataset' }))
      }
    },
  )
})

describe('contains', () => {
  it.each([
    ['It is Paris.', 'Paris', 1, 1],
    ['It is paris.', 'Paris', 0, 0],
    ['14', '4', 1, 0],
    ['4.5', '4', 1, 0],
    ['5.4', '4', 1, 0],
    ['14 or 4.', '4', 1, 1],
    ['', '4', 0, 0],
    ['C++.', 'C++', 1, 1],
    ['It is \u22125.', '-5', 1, 1],
    ['It is -5.', '\u22125', 1, 1],
    ['\u{1D400}4', '4', 1, 0],
  ])('of %j and %j is %d, and %d as words', (answer, label, score, asWords) => {
    expect(contains(answer, label)).toBe(score)
    expect(contains(answer, label, { words: true })).toBe(asWords)
  })
})

describe('matches', () => {
  it('finds the expression anywhere, every time', () => {
    const pattern = /yes/g
    expect([
      matches('oh yes', pattern),
      matches('oh yes', pattern),
      matches('no', pattern),
    ]).toEqual([1, 1, 0])
  })

  it('gives an empty answer nothing', () => {
    expect(matches(' ', /.*/)).toBe(0)
  })

  it('rejects a text', () => {
    expect(() => matches('a', 'a' as unknown as RegExp)).toThrow(TypeError)
  })
})

describe('numeric', () => {
  it.each([
    ['It is 4.', '4'],
    ['2 + 3 = 5', '5'],
    ['\u22125', '-5'],
    ['-$5', '-5'],
    ['5-3', '3'],
    ['f(x)-3', '3'],
    ['1,234,567.5', '1234567.5'],
    ['1\u202F234', '1234'],
    ['1{,}234', '1234'],
    ['3, 4', '4'],
    ['1.5e\u22123', '0.0015'],
    ['.5', '0.5'],
    ['that makes...5', '5'],
    ['_5_ by gpt4', '5'],
    ['1/2', '0.5'],
    ['0.5', '1/2'],
    ['-\\frac{1}{2}', '-0.5'],
    ['\\boxed{5} in 3 steps', '5'],
    ['\\boxed{1} no \\boxed{2}', '2'],
    ['\\boxed{x = \\dfrac{1}{4}}', '0.25'],
    ['\\boxed{\\$1,000\\text{ a day}}', '1000'],
    ['so 9 * 2\n#### 18', '18'],
    ['-0', '0'],
  ])('of %j is the number of the label %j', (answer, label) => {
    expect(numeric(answer, label)).toBe(1)
  })

  it.each([
    ['', '0'],
    ['none', '0'],
    ['NaN', '0'],
    ['Infinity', '0'],
    ['1e999', '1'],
    ['4, then 1e999', '4'],
    ['1/0', '1'],
    ['0/0', '0'],
    ['-4', '4'],
    ['4.0001', '4'],
    ['\\boxed{\\sqrt{3}}', '3'],
    ['\\boxed{2\\sqrt{3}}', '2'],
    ['5, so \\boxed{5', '5'],
    ['1/2', '2'],
  ])('of %j is not that of %j', (answer, label) => {
    expect(numeric(answer, label)).toBe(0)
  })

  it('allows a difference, absolute or as a share of the label', () => {
    expect(numeric('0.4', 0.3, { tolerance: 0.1 })).toBe(1)
    expect(numeric('0.41', 0.3, { tolerance: 0.1 })).toBe(0)
    expect(numeric('101', '-100', { relative: 0.01 })).toBe(0)
    expect(numeric('-101', '-100', { relative: 0.01 })).toBe(1)
    expect(numeric('-101.1', '-100', { relative: 0.01 })).toBe(0)
  })

  it.each([Number.NaN, -1, Number.POSITIVE_INFINITY])('rejects the tolerance %d', (tolerance) => {
    expect(() => numeric('1', 1, { tolerance })).toThrow(
      expect.objectContaining({ code: 'invalid_config' }),
    )
  })

  it.each(['none', Number.NaN, '1/0'])('rejects the label %j', (label) => {
    expect(() => numeric('1', label)).toThrow(expect.objectContaining({ code: 'invalid_dataset' }))
  })
})

describe('json', () => {
  it.each([
    ['{"b": [2], "a": 1}', 1],
    ['Here:\n```json\n{"a": 1, "b": [2]}\n```\nDone [1].', 1],
    ['In [0, 1) and so: {"a": 1, "b": [2]}', 1],
    ['In [0, "1) and so:\n{"a": 1, "b": [2]}', 1],
    ['{"a": 0} no: {"a": 1, "b": [2]}', 1],
    ['{"a": 1, "b": [2]} no: {"a": 0}', 0],
    ['{"a": 1, "b": [2, 3]}', 0],
    ['{"a": 1, "b": [2], "c": null}', 0],
    ['{"broken": {"a": 1, "b": [2]}, oh}', 0],
    ['{"a": 1, "b": [2]', 0],
    ['', 0],
  ])('of %j is %d', (answer, score) => {
    expect(json(answer, '{"a": 1, "b": [2]}')).toBe(score)
    expect(json(answer, { a: 1, b: [2], left: undefined })).toBe(score)
  })

  it.each([
    ['behind code of another language', '```python\nprint([1])\n```\nSo:\n```json\n{"a": 1}\n```'],
    ['in front of a citation', '```json\n{"a": 1}\n```\nSee [1].'],
    ['in front of code', '{"a": 1}\n```js\nconst a = [1]\n```'],
    ['in a fence in capitals', '```JSON\n{"a": 1}\n```'],
    ['in tildes', '~~~json\n{"a": 1}\n~~~\n[2]'],
    ['in a fence without a name', '```\n{"a": 1}\n```\n[2]'],
    ['in a fence that was left open', 'So:\n```json\n{"a": 1}'],
    ['only in code of another language', '```js\nconst x = {"a": 1}\n```'],
    ['behind output without JSON', '```\nok\n```\n{"a": 1}'],
  ])('is found %s', (_where, answer) => {
    expect(json(answer, { a: 1 })).toBe(1)
  })

  it('keeps a fence in a string', () => {
    const value = { code: '```py\nprint(1)\n```' }
    expect(json(`\`\`\`json\n${JSON.stringify(value)}\n\`\`\``, value)).toBe(1)
  })

  it.each([
    '[{"a": 2}, {"a": 1}',
    '[{"a": 1},',
    '[{"a": 1}, {"a',
    '{"list": [{"a": 1}, {"b": tr',
    'So: [[{"a": 1}], -',
    '```json\n[{"a": 1},\n```',
    '```json\n[{"a": 1}, {"a": "1',
    'First {"a": 1}, then {"a":',
  ])('does not take a part of what was cut off in %j', (answer) => {
    expect(json(answer, { a: 1 })).toBe(0)
  })

  it('compares integers beyond 2^53 exactly', () => {
    const label = '{"id": 9007199254740993, "n": [-12345678901234567890, 1e20]}'
    expect(json(label, label)).toBe(1)
    expect(json(label.replace('1e20', '100000000000000000000'), label)).toBe(1)
    expect(json(label.replace('993', '992'), label)).toBe(0)
    expect(json(label.replace('890', '891'), label)).toBe(0)
    expect(json('{"id": 9007199254740992}', { id: 2 ** 53 })).toBe(1)
    expect(json('{"id": 12345678901234567890}', z.object({ id: z.number() }))).toBe(1)
  })

  it('reads brackets and quotation marks in strings, and -0', () => {
    expect(json(String.raw`So {"a": "} \" ]", "b": -0}`, { a: '} " ]', b: 0 })).toBe(1)
  })

  it('compares a whole answer that is not an object', () => {
    expect([json('5', '5'), json('"5"', '5'), json('null', 'null')]).toEqual([1, 0, 1])
  })

  it('checks a schema', () => {
    const schema = z.object({ age: z.number().positive() })
    expect(json('It is {"age": 3}', schema)).toBe(1)
    expect(json('It is {"age": -3}', schema)).toBe(0)
    expect(json('three', schema)).toBe(0)
  })

  it('rejects what JSON cannot hold, a label without JSON and an asynchronous schema', () => {
    const invalid = expect.objectContaining({ code: 'invalid_config' })
    expect(() => json('{"a": null}', { a: Number.NaN })).toThrow(invalid)
    expect(() => json('1', undefined)).toThrow(invalid)
    expect(() => json('1', 'one')).toThrow(expect.objectContaining({ code: 'invalid_dataset' }))
    const slow = z.number().refine(async () => Promise.resolve(false))
    expect(() => json('1', slow)).toThrow(invalid)
  })

  it('reads a long answer of brackets in one pass', () => {
    const answer = `${'[{'.repeat(200_000)}${'}'.repeat(200_000)} {"a": 1}`
    const start = performance.now()
    json(answer, { a: 1 })
    expect(performance.now() - start).toBeLessThan(5000)
  })
})

it.each(['`', '~', '~~~a', '```a', '```\u00a0', '``` '])(
  'reads an answer that repeats %j without end in an instant',
  (piece) => {
    const started = performance.now()
    expect(json(`\`\`\`${piece.repeat(50_000)}`, '{"a":1}')).toBe(0)
    expect(performance.now() - started).toBeLessThan(2000)
  },
)
