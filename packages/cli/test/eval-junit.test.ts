import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { SaxesParser } from 'saxes'
import { describe, expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { inWorkspace, run } from './in-process.ts'
import { failure, makeRun, rewarded, type MadeRun } from './made-runs.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

/** An element of an XML document. */
interface XmlElement {
  readonly name: string
  readonly attributes: Readonly<Record<string, string>>
  readonly children: XmlElement[]
  text: string
}

/** Parses a document; throws where XML 1.0 does not allow it. */
function parsed(xml: string): XmlElement {
  const open: XmlElement[] = []
  let root: XmlElement | undefined
  const parser = new SaxesParser()
  parser.on('error', (error) => {
    throw error
  })
  parser.on('opentag', ({ name, attributes }) => {
    const element: XmlElement = { name, attributes, children: [], text: '' }
    open.at(-1)?.children.push(element)
    root ??= element
    open.push(element)
  })
  parser.on('text', (text) => {
    const last = open.at(-1)
    if (last !== undefined) last.text += text
  })
  parser.on('closetag', () => void open.pop())
  parser.write(xml).close()
  if (root === undefined) throw new Error('expected an element')
  return root
}

function elements(within: XmlElement, name: string): XmlElement[] {
  return within.children.flatMap((child) => [
    ...(child.name === name ? [child] : []),
    ...elements(child, name),
  ])
}

/** Each row of a run with its outcome in the JUnit document. */
function outcomes(document: XmlElement): string[] {
  return elements(document, 'testcase').map(
    ({ attributes, children: [child] }) =>
      `${attributes['name']}: ${child === undefined ? 'passed' : `${child.name}, ${child.attributes['message']}`}`,
  )
}

async function exported(
  made: Omit<MadeRun, 'outputRoot' | 'name'>,
  ...flags: string[]
): Promise<XmlElement> {
  const folder = await makeRun({ outputRoot: temporaryFolder(), name: 'first', ...made })
  const { stdout } = await run(['eval', 'export', folder, '--junit', '-', ...flags])
  return parsed(stdout)
}

describe('eval run --junit', () => {
  const { it: onUnix } = onlyIf(process.platform !== 'win32', 'FIFOs')

  onUnix('writes into a pipe that exists', async () => {
    const folder = temporaryFolder()
    const pipe = path.join(folder, 'results.xml')
    execFileSync('mkfifo', [pipe])
    const reader = readFile(pipe, 'utf8')
    const words = `eval run configs/eval/echo.toml --policy policies/echo.ts --rows 0 --output ${folder} --junit ${pipe}`
    expect((await run(words.split(' '))).code).toBe(0)
    expect(elements(parsed(await reader), 'testcase')).toHaveLength(1)
    expect(statSync(pipe).isFIFO()).toBe(true)
  })
})

describe('eval export --junit', () => {
  it('has a test case for each row, which passes when all of its attempts do', async () => {
    const items = rewarded([
      [1, 1],
      [1, 0.5],
      [0, null],
    ])
    const skipped = [0, 1].map((attempt) => ({
      row: 3,
      attempt,
      event: { status: 'skipped', reward: null } as const,
    }))
    const document = await exported({ rows: 4, n: 2, items: [...items, ...skipped] })
    expect(outcomes(document)).toEqual([
      'row 0: passed',
      'row 1: failure, 1 of 2 attempts did not pass',
      'row 2: error, 1 of 2 attempts failed, 1 of 2 attempts did not pass',
      'row 3: skipped, the grader removed all samples',
    ])
    const [suite] = elements(document, 'testsuite')
    expect(suite?.attributes).toEqual({
      name: 'first',
      timestamp: '2026-01-02T03:04:05',
      tests: '4',
      failures: '1',
      errors: '1',
      skipped: '1',
      time: '16.000',
    })
  })

  it('says why an attempt did not pass, and which command shows its conversation', async () => {
    const document = await exported({
      rows: 2,
      items: [
        { row: 0, attempt: 0, event: { reward: 0.25, metrics: { exact: 0 }, summary: 'It is 4.' } },
        { row: 1, attempt: 0, event: failure('timeout', 'The workflow exceeded its 2 s.') },
      ],
    })
    const [wrong] = elements(document, 'failure')
    expect(wrong?.text).toMatch(
      /^0\.1: reward 0\.25, and 1 passes\n {2}exact 0\n {2}ends with: It is 4\.\n {2}osmosis eval show \S+first 0\.1\n$/,
    )
    expect(wrong?.attributes['message']).toBe('reward 0.25, and 1 passes')
    const [broken] = elements(document, 'error')
    expect(broken?.text).toMatch(
      /^1\.1: timeout: The workflow exceeded its 2 s\.\n {2}osmosis eval show \S+first 1\.1\n$/,
    )
  })

  it('judges by the score where there are no rewards, and says which is missing', async () => {
    const document = await exported({
      rows: 2,
      items: [
        { row: 0, attempt: 0, event: { reward: null, scores: { exact: 1 } } },
        { row: 1, attempt: 0, event: { reward: null, score_errors: { exact: 'no number' } } },
      ],
    })
    expect(outcomes(document)).toEqual(['row 0: passed', 'row 1: failure, no exact'])
    expect(elements(document, 'failure')[0]?.text).toContain(
      '1.1: no exact\n  no exact: no number\n',
    )
  })

  it('has an error for attempts that have not ended', async () => {
    const document = await exported({ rows: 2, n: 2, items: rewarded([[1]]) })
    expect(outcomes(document)).toEqual([
      'row 0: error, 1 attempt did not run to the end',
      'row 1: error, 2 attempts did not run to the end',
    ])
  })

  it('has only the rollouts of a filter', async () => {
    const made = { rows: 3, n: 2, items: rewarded([[1, 0], [0, 0], [1]]) }
    expect(outcomes(await exported(made, '--filter', 'is:passed'))).toEqual([
      'row 0: passed',
      'row 2: passed',
    ])
  })

  it('is valid XML, whatever the policy and the tools said', async () => {
    const hostile = '</failure>]]> & "<\u0000\u001B[31m\uFFFE\uD800\u0085\r\n\t\u{1F600}'
    const document = await exported({
      rows: 2,
      inputs: { name: `m"<&>\u0007\n1` },
      items: [
        { row: 0, attempt: 0, event: { reward: 0, summary: hostile } },
        { row: 1, attempt: 0, event: failure('agent_error', hostile) },
      ],
    })
    expect(elements(document, 'property')[0]?.attributes['value']).toBe('m"<&>\\u0007\n1')
    const shown = '</failure>]]> & "<\\u0000\\u001b[31m\\ufffe\uFFFD\\u0085\r\n\t\u{1F600}'
    expect(elements(document, 'failure')[0]?.text).toContain(shown)
    expect(elements(document, 'error')[0]?.text).toContain(shown)
  })
})

describe('eval run --junit', () => {
  const echo = ['eval', 'run', 'configs/eval/echo.toml', '--quiet']

  it('writes what eval export does, also when the gate fails, and replaces the file', async () => {
    const output = temporaryFolder()
    const file = path.join(output, 'reports/junit.xml')
    const flags = ['--name', 'echo', '--output', output, '--junit', file]
    const first = await run([...echo, ...flags, '--min-pass-rate', '0.8'])
    expect(first.code).toBe(3)
    expect(outcomes(parsed(readFileSync(file, 'utf8')))).toEqual([
      'row 0: passed',
      'row 1: passed',
      'row 2: failure, 2 of 2 attempts did not pass',
      'row 3: passed',
    ])
    const { stdout } = await run(['eval', 'export', 'echo', '--output', output, '--junit', '-'])
    expect(readFileSync(file, 'utf8')).toBe(stdout)
    expect((await run([...echo, ...flags])).code).toBe(0)
    expect(readFileSync(file, 'utf8')).toBe(stdout)
  })

  it('refuses what is not a file before anything runs', async () => {
    const output = temporaryFolder()
    const refused = async (junit: string): Promise<string> => {
      const { code, stderr } = await run([...echo, '--output', output, '--junit', junit])
      expect([code, existsSync(path.join(output, 'echo'))]).toEqual([2, false])
      return stderr
    }
    expect(await refused('-')).toContain('--junit must name a file. osmosis eval export <run>')
    expect(await refused('')).toContain('--junit must name a file, e.g. junit.xml; it is empty.')
    expect(await refused(output)).toContain(`${output} is a folder.`)
  })
})
