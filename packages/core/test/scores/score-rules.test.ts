import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { type ExecResult, LocalSandbox, type Sandbox } from '@osmosis/core/sandbox'
import { json, lastJson, numeric, unitTests } from '@osmosis/core/scores'
import * as fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'

// Every expected score is worked out here in another way than in the source: by hand, or in whole hundredths.

/** Of 1234 the text 12.34. */
function hundredths(value: number): string {
  const digits = String(Math.abs(value)).padStart(3, '0')
  return `${value < 0 ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

/** Numbers near each other, and those that are a hundred times another. */
const pairs = fc
  .tuple(fc.integer({ min: -30_000, max: 30_000 }), fc.integer({ min: -300, max: 300 }), fc.nat(4))
  .map(([one, step, kind]) => {
    const others = [one, one + step, one * 100, Math.trunc(one / 100), -one]
    return { said: one, wanted: others[kind] ?? one }
  })

describe('a number with a percent sign', () => {
  it.each([
    ['50', '50', 1],
    ['0.5', '50', 0],
    ['50', '0.5', 0],
    ['5000', '50', 0],
    ['0.5', '0.5', 1],
    ['50%', '50', 1],
    ['50%', '0.5', 1],
    ['50%', '5000', 0],
    ['0.5%', '50', 0],
    ['0.5%', '0.005', 1],
    ['50', '50%', 1],
    ['0.5', '50%', 1],
    ['5000', '50%', 0],
    ['0.005', '50%', 0],
    ['50%', '50%', 1],
    ['0.5%', '50%', 0],
    ['50%', '0.5%', 0],
    ['7 percent', '0.07', 1],
    ['7 per cent', '7', 1],
    ['0.07 percent', '7 percent', 0],
  ])('%j for the label %j has the score %d', (said, label, score) => {
    expect(numeric(`It is ${said}.`, label)).toBe(score)
    expect(numeric(`\\boxed{${said}}`, label)).toBe(score)
  })

  it('is a hundredth too when the other number has none, and only then', () => {
    fc.assert(
      fc.property(pairs, fc.boolean(), fc.boolean(), ({ said, wanted }, isPercent, isWanted) => {
        const answer = `It is ${hundredths(said)}${isPercent ? '%' : ''}.`
        const label = `${hundredths(wanted)}${isWanted ? '%' : ''}`
        const isHundredth = isPercent ? said === wanted * 100 : said * 100 === wanted
        const isRight = said === wanted || (isPercent !== isWanted && isHundredth)
        expect([answer, label, numeric(answer, label)]).toEqual([answer, label, isRight ? 1 : 0])
      }),
      { numRuns: 500 },
    )
  })
})

describe('the tolerance', () => {
  it.each([
    ['150', '100', { relative: 0.5 }, 1],
    ['151', '100', { relative: 0.5 }, 0],
    ['200', '100', { relative: 0.5 }, 0],
    ['50', '100', { relative: 0.5 }, 1],
    ['60', '100', { relative: 0.5 }, 1],
    ['49', '100', { relative: 0.5 }, 0],
    ['100', '60', { relative: 0.5 }, 0],
    ['90', '60', { relative: 0.5 }, 1],
    ['0', '100', { relative: 1 }, 1],
    ['100', '0', { relative: 1 }, 0],
    ['0', '0', { relative: 0.01 }, 1],
    ['101', '100', { tolerance: 1 }, 1],
    ['99', '100', { tolerance: 1 }, 1],
    ['101.01', '100', { tolerance: 1 }, 0],
    ['103', '100', { tolerance: 1, relative: 0.03 }, 1],
    ['103', '100', { tolerance: 3, relative: 0.01 }, 1],
    ['104', '100', { tolerance: 1, relative: 0.03 }, 0],
    ['104', '100', { tolerance: 3, relative: 0.01 }, 0],
  ])('of %j for the label %j with %j gives %d', (said, label, options, score) => {
    expect(numeric(said, label, options)).toBe(score)
  })

  it('is a share of the label and of nothing else, and the larger of the two counts', () => {
    const percents = fc.integer({ min: 0, max: 120 })
    fc.assert(
      fc.property(pairs, percents, fc.integer({ min: 0, max: 400 }), (pair, percent, tolerance) => {
        const { said, wanted } = pair
        const options = { tolerance: tolerance / 100, relative: percent / 100 }
        const difference = Math.abs(said - wanted)
        const isNear = difference <= tolerance || difference * 100 <= percent * Math.abs(wanted)
        const score = numeric(hundredths(said), hundredths(wanted), options)
        expect([pair, options, score]).toEqual([pair, options, isNear ? 1 : 0])
      }),
      { numRuns: 500 },
    )
  })
})

describe('a label that was a double', () => {
  it.each([
    ['1/3', '0.3333333333333333', 1],
    ['2/3', '0.6666666666666666', 1],
    ['0.333333333333', '0.3333333333333333', 0],
    ['0.333333', '1/3', 0],
    ['0.33', '1/3', 0],
    ['0.1000001', '0.1', 0],
    ['3.1415926', '3.14159265', 0],
    ['1000000.000001', '1000000.000002', 0],
    ['1000000000000000001', '1000000000000000000', 0],
  ])('is not the number that only looks like it: %j for %j is %d', (said, label, score) => {
    expect(numeric(said, label)).toBe(score)
  })

  it('allows the last bits of a double, and no bit before them', () => {
    const doubles = fc.double({ min: 1e-6, max: 1e6, noNaN: true, noDefaultInfinity: true })
    fc.assert(
      fc.property(
        doubles.filter((value) => !Number.isInteger(value)),
        fc.integer({ min: 20, max: 47 }),
        (label, bits) => {
          expect(numeric(String(label * (1 + 2 ** -52)), label)).toBe(1)
          const other = label * (1 + 2 ** -bits)
          expect([label, other, numeric(String(other), label)]).toEqual([label, other, 0])
        },
      ),
      { numRuns: 300 },
    )
  })
})

describe('a word behind a number', () => {
  const words = [
    ['thousand', '000'],
    ['million', '000000'],
    ['billion', '000000000'],
    ['trillion', '000000000000'],
  ] as const

  it.each(words)('%s writes %s behind it, and no other zeros', (word, zeros) => {
    for (const [, others] of words) {
      const score = zeros === others ? 1 : 0
      expect(numeric(`It is 7 ${word}.`, `7${others}`)).toBe(score)
      expect(numeric(`\\boxed{7 ${word}}`, `7${others}`)).toBe(score)
      expect(numeric(`7${others}`, `7 ${word}`)).toBe(score)
      expect(numeric(`2.5 ${word} dollars`, `25${others.slice(1)}`)).toBe(score)
    }
  })

  it('that is no such word scales nothing', () => {
    expect(numeric('5 brillion', '5')).toBe(0)
    expect(numeric('5 millionaires', '5')).toBe(1)
    expect(numeric('5 millionaires', '5000000')).toBe(0)
  })
})

describe('the JSON of an answer with several', () => {
  const ways: [string, (value: unknown) => string][] = [
    ['blocks named json', (value) => `\`\`\`json\n${JSON.stringify(value)}\n\`\`\``],
    ['blocks without a name', (value) => `\`\`\`\n${JSON.stringify(value)}\n\`\`\``],
    ['blocks in tildes', (value) => `~~~json\n${JSON.stringify(value)}\n~~~`],
    ['blocks with words inside', (value) => `\`\`\`json\nSo ${JSON.stringify(value)}\n\`\`\``],
    ['plain text', (value) => JSON.stringify(value)],
  ]

  it.each(ways)('is the last of them in %s', (_, write) => {
    const values = fc.uniqueArray(
      fc.oneof(fc.record({ a: fc.nat(99) }), fc.array(fc.nat(9), { maxLength: 3 })),
      { minLength: 2, maxLength: 4, selector: (value) => JSON.stringify(value) },
    )
    fc.assert(
      fc.property(values, (all) => {
        const answer = `First:\n${all.map((value) => write(value)).join('\nNo, better:\n')}\nDone.`
        const last = all.at(-1)
        expect(lastJson(answer)).toEqual({ value: last })
        for (const value of all) expect(json(answer, value)).toBe(value === last ? 1 : 0)
      }),
      { numRuns: 50 },
    )
  })

  it('is that of a block, also when text without one follows', () => {
    const answer = '{"a": 0}\n```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```\nnot {"a": 3}'
    expect([0, 1, 2, 3].map((a) => json(answer, { a }))).toEqual([0, 0, 1, 0])
  })
})

describe('a command that tests an answer', () => {
  /** Ends every command in one way, and finds this report behind it. */
  function sandboxOf(end: Partial<ExecResult>, report: string): Sandbox {
    const files = new Map<string, string>()
    const result = { exitCode: 0, stdout: '', stderr: '', timedOut: false, truncated: false }
    return {
      exec: async () => {
        files.set('report.xml', report)
        return { ...result, ...end }
      },
      read: async (file) => Buffer.from(files.get(file) ?? ''),
      write: async (file, content) => void files.set(file, Buffer.from(content).toString()),
      close: async () => {},
    }
  }

  const ends: readonly (readonly [string, Partial<ExecResult>])[] = [
    ['ended with code 0', { exitCode: 0 }],
    ['ended with code 1', { exitCode: 1 }],
    ['was killed', { exitCode: null }],
    ['was killed at its time limit', { exitCode: null, timedOut: true }],
    ['ended with code 0 at its time limit', { exitCode: 0, timedOut: true }],
    ['ended with code 1 at its time limit', { exitCode: 1, timedOut: true }],
  ]
  const reports: readonly (readonly [string, number, number])[] = [
    ['2 of 2 tests passed', 2, 2],
    ['1 of 2 tests passed', 1, 2],
    ['3 of 4 tests passed', 3, 4],
    ['0 of 3 tests passed', 0, 3],
  ]
  const cases = ends.flatMap(([how, end]) => reports.map((report) => ({ how, end, report })))

  it.each(cases)('and $how has its score when $report.0', async ({ end, report }) => {
    const [, passed, all] = report
    const tests = Array.from({ length: all }, (_, number) =>
      number < passed ? '<testcase name="a"/>' : '<testcase name="a"><failure/></testcase>',
    )
    const box = sandboxOf(end, `<testsuite>${tests.join('')}</testsuite>`)
    // A run that did not end may have left out what would fail, and a code says that something else failed.
    const isFailed = end.timedOut === true || (passed === all && end.exitCode !== 0)
    const share = isFailed ? 0 : passed / all
    expect(await unitTests(box, 'test', { junit: 'report.xml' })).toBe(share)
    const isEndedWell = end.timedOut !== true && end.exitCode === 0
    expect(await unitTests(box, 'test')).toBe(isEndedWell ? 1 : 0)
  })

  it('has the score 0 when its time was over behind a report with a test that passed', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'scores-'))
    const box = new LocalSandbox({ folder, env: { PATH: process.env['PATH'] ?? '' } })
    onTestFinished(async () => {
      await box.close()
      await rm(folder, { recursive: true, force: true })
    })
    const command = `printf '<testcase name="a"/><testcase name="b"><failure/></testcase>' > a.xml; exec sleep 60`
    expect(await unitTests(box, command, { junit: 'a.xml', timeoutSeconds: 1 })).toBe(0)
    expect((await box.exec(command, { timeoutSeconds: 0.2 })).timedOut).toBe(true)
    expect((await box.exec('true', { timeoutSeconds: 60 })).timedOut).toBe(false)
  })
})
