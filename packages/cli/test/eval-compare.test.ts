import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { run, workIn } from './in-process.ts'
import { makeRun, rewarded, type MadeItem, type MadeRun } from './made-runs.ts'
import { temporaryFolder, type Finished } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

/** Runs in a folder of their own, and the commands that compare them. */
function folder(): {
  readonly make: (made: Omit<MadeRun, 'outputRoot'>) => Promise<string>
  readonly evals: (command: string, args: readonly string[], columns?: number) => Promise<Finished>
} {
  const output = temporaryFolder()
  return {
    make: (made) => makeRun({ outputRoot: output, ...made }),
    evals: (command, args, columns) =>
      run(['eval', command, '--output', output, ...args], { COLUMNS: String(columns ?? '') }),
  }
}

/** Rewards of rows with two attempts; a number of rows pass with the second one. */
function passing(rows: number, wins: number): MadeItem[] {
  return rewarded(Array.from({ length: rows }, (_, row) => [1, row < wins ? 1 : 0]))
}

const facets = (rows: number, first = 0): MadeRun['rows'] =>
  Array.from({ length: rows }, (_, row) => ({
    key: `row-${first + row}`,
    source_row: row,
    facets: { Task: row % 2 === 0 ? 'refund' : 'rebook' },
  }))

describe('eval compare', () => {
  it('compares the last two runs, the older first, when it is given none', async () => {
    const { make, evals } = folder()
    expect((await evals('compare', [])).stderr).toContain('A comparison needs two runs')
    for (const [day, name] of ['zebra', 'middle', 'ant'].entries()) {
      const created_at = `2026-01-0${day + 1}T00:00:00.000Z`
      await make({ name, rows: facets(4), n: 2, items: passing(4, 2), manifest: { created_at } })
    }
    const { code, stdout } = await evals('compare', [])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Before +middle .*\nAfter +ant /m)
    const { code: wrong, stderr } = await evals('compare', ['ant'])
    expect([wrong, stderr]).toEqual([2, expect.stringContaining('Name the run that ant is')])
  })

  it('leaves out a run that cannot be read, and says so', async () => {
    const { make, evals } = folder()
    for (const [day, name] of ['first', 'second', 'damaged'].entries()) {
      const created_at = `2026-01-0${day + 1}T00:00:00.000Z`
      const location = await make({
        name,
        rows: facets(4),
        n: 2,
        items: passing(4, 2),
        manifest: { created_at },
      })
      if (name === 'damaged') appendFileSync(path.join(location, 'events.jsonl'), 'nonsense\n{}\n')
    }
    const { code, stdout, stderr } = await evals('compare', [])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Before +first .*\nAfter +second /m)
    expect(stderr).toMatch(/^warning: A run is left out, because it cannot be read: .*damaged/)
  })

  it('passes runs by that ended at no row of the newest, and takes the last two when there is no other', async () => {
    const { make, evals } = folder()
    const made = async (name: string, rows: number, items: MadeItem[]): Promise<void> => {
      const created_at = `2026-01-0${['old', 'other', 'empty', 'new'].indexOf(name) + 1}T00:00:00.000Z`
      await make({
        name,
        rows: facets(rows, name === 'other' ? 100 : 0),
        n: 2,
        items,
        manifest: { created_at },
      })
    }
    await made('other', 4, passing(4, 2))
    await made('empty', 4, [])
    expect((await evals('compare', [])).stderr).toContain('other and empty have no row in common')
    await made('old', 4, passing(4, 2))
    await made('new', 4, passing(4, 3))
    expect((await evals('compare', [])).stdout).toMatch(/^Before +old .*\nAfter +new /m)
  })

  it('says when a run is compared with itself', async () => {
    const { make, evals } = folder()
    await make({ name: 'only', rows: facets(4), n: 2, items: passing(4, 2) })
    const { code, stderr } = await evals('compare', ['only', 'latest'])
    expect([code, stderr]).toEqual([0, 'warning: only is compared with itself.\n'])
  })

  it('says first what it comes to, then the figures, what changed, and what was lost', async () => {
    const { make, evals } = folder()
    const tokens = (items: MadeItem[], completion_tokens: number): MadeItem[] =>
      items.map((item) => ({ ...item, event: { ...item.event, completion_tokens } }))
    await make({ name: 'before', rows: facets(40), n: 2, items: tokens(passing(40, 30), 100) })
    await make({ name: 'after', rows: facets(41), n: 2, items: tokens(passing(41, 10), 150) })
    const { code, stdout } = await evals('compare', ['before', 'after', '--by', 'task'], 80)
    expect(code).toBe(0)
    const [verdict = '', ...lines] = stdout.split('\n')
    expect(verdict).toMatch(
      /^Worse by 25\.0 points, with 95 % confidence between 16\.\d and 33\.\d\.$/,
    )
    const text = lines.join('\n')
    expect(text).toContain('Before  before  step-200\nAfter   after  step-200\n')
    expect(text).toMatch(/^Pass rate +87\.5 % +62\.5 % +−25\.0 points ± 8\.\d$/m)
    expect(text.replaceAll(/\s+/g, ' ')).toContain(
      '40 rows in both: 0 better, 20 worse, 20 the same; 20 rows always passed before and no longer do; 1 row only after.',
    )
    expect(text).toMatch(
      /^By Task\n +Rows +Change\n(?:re\w+ +20 +−25\.0 points ± 12\.\d +worse\n){2}/m,
    )
    expect(text).toMatch(/^Tokens written per rollout +100 +150 +\+50\.0$/m)
    expect(text).toMatch(
      /^Largest losses, of 20\n100\.0 % → 50\.0 % {2}row 10, Task refund\n {2}osmosis eval show \S+after 10\.2$/m,
    )
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
  })

  it('says which part of the code changed: the rollout, the policy module, or eval functions', async () => {
    const root = temporaryWorkspace({ 'scores.ts': 'export const score = () => 1\n' })
    const { evals } = folder()
    const evaluated = async (name: string): Promise<void> => {
      const row = ['-m', 'rollouts/echo/main.ts', '-d', 'data/words.jsonl', '--rows', '0']
      const flags = ['--policy', 'policies/echo.ts', '--eval-fn', 'scores.ts:score']
      await evals('run', [...row, ...flags, '--name', name])
    }
    const change = (file: string): void => {
      const text = readFileSync(path.join(root, file), 'utf8')
      rmSync(path.join(root, file))
      writeFileSync(path.join(root, file), `${text}// Another.\n`)
    }
    const changed = async (before: string, after: string): Promise<string[]> => {
      const { stdout } = await evals('compare', [before, after, '--json'])
      const document = JSON.parse(stdout) as { changed: { name: string }[] }
      return document.changed.map(({ name }) => name)
    }
    workIn(root)
    await evaluated('first')
    change('policies/echo.ts')
    await evaluated('other-policy')
    change('scores.ts')
    change('rollouts/echo/normalise.ts')
    await evaluated('other-code')
    expect(await changed('first', 'other-policy')).toEqual(['policy module'])
    expect(await changed('other-policy', 'other-code')).toEqual(['code', 'eval functions'])
  })

  it('ends with 3 when a significant loss exceeds the limit', async () => {
    const { make, evals } = folder()
    await make({ name: 'a', rows: 40, n: 2, items: passing(40, 30) })
    await make({ name: 'worse', rows: 40, n: 2, items: passing(40, 10) })
    await make({ name: 'noise', rows: 40, n: 2, items: passing(40, 29) })
    const gate = async (...args: readonly string[]): Promise<number | null> =>
      (await evals('compare', args)).code
    expect(await gate('a', 'worse', '--fail-if-worse')).toBe(3)
    expect(await gate('a', 'worse', '--fail-if-worse=24.9')).toBe(3)
    // The loss is 25 points, and not more.
    expect(await gate('a', 'worse', '--fail-if-worse=25')).toBe(0)
    expect(await gate('a', 'worse')).toBe(0)
    expect(await gate('a', 'noise', '--fail-if-worse')).toBe(0)
    expect(await gate('worse', 'a', '--fail-if-worse')).toBe(0)
    // The mean reward falls by a quarter.
    expect(await gate('a', 'worse', '--metric', 'reward', '--fail-if-worse=0.2')).toBe(3)
    expect(await gate('a', 'worse', '--metric', 'reward', '--fail-if-worse=0.3')).toBe(0)
    expect((await evals('compare', ['a', 'worse', '--fail-if-worse=2'])).stderr).toBe(
      'error: worse is worse than a, by more than 2 points.\n',
    )
  })

  it('reports when the rows are too few or equal', async () => {
    const { make, evals } = folder()
    await make({ name: 'a', rows: 40, n: 2, items: passing(40, 30) })
    await make({ name: 'noise', rows: 40, n: 2, items: passing(40, 29) })
    await make({ name: 'few', rows: 4, n: 2, items: passing(4, 0) })
    expect((await evals('compare', ['a', 'noise'])).stdout).toMatch(
      /^No significant difference: −1\.3 points ± 2\.5\. These rows detect a true change of /,
    )
    expect((await evals('compare', ['a', 'few'])).stdout).toMatch(/^Too few rows to compare\.\n/)
  })

  it('takes a re-grading', async () => {
    const { make, evals } = folder()
    const items = passing(20, 20)
    const location = await make({ name: 'both', rows: 20, n: 2, items })
    mkdirSync(path.join(location, 'grades'))
    const grades = items.map(({ row, attempt }) => ({
      source_row_index: row,
      run_index: attempt,
      rollout_id: `rollout-${row}-${attempt}`,
      reward: 0,
      error: null,
    }))
    const text = grades.map((grade) => `${JSON.stringify(grade)}\n`).join('')
    writeFileSync(path.join(location, 'grades/strict.jsonl'), text)
    expect((await evals('compare', ['both', 'both@strict', '--fail-if-worse'])).code).toBe(3)
  })

  it('is Markdown for a pull request, and one JSON document with --json', async () => {
    const { make, evals } = folder()
    await make({
      name: 'a',
      rows: facets(20),
      n: 2,
      items: passing(20, 0),
      inputs: { name: 'a|b' },
    })
    await make({ name: 'b', rows: facets(20), n: 2, items: passing(20, 10) })
    const markdown = await evals('compare', ['a', 'b', '--markdown', '--by', 'Task'])
    expect(markdown.stdout).toMatch(/^\*\*Better by 25\.0 points\*\*, with 95 % confidence /)
    expect(markdown.stdout).toContain(
      '\n|  | a (a\\|b) | b (step-200) | Change |\n| --- | ---: | ---: | ---: |\n| Pass rate | 50.0 % | 75.0 % | +25.0 points ± ',
    )
    expect(markdown.stdout).toContain('\n| Task | Rows | Change |\n')
    expect(JSON.parse((await evals('compare', ['a', 'b', '--json'])).stdout)).toMatchObject({
      a: 'a',
      b: 'b',
      metric: 'pass',
      verdict: { tone: 'better' },
      difference: { value: 0.25, rows: 20, better: 10, worse: 0, same: 10 },
      rows: expect.arrayContaining([
        { key: 'row-0', before: 0.5, after: 1, change: 0.5, row_a: 0, row_b: 0 },
      ]),
    })
  })

  it('ends with 2 for runs that are not there or have no row in common, and for wrong flags', async () => {
    const { make, evals } = folder()
    await make({ name: 'a', rows: facets(2), items: rewarded([[1], [1]]) })
    await make({ name: 'b', rows: [{ key: 'other', source_row: 0 }], items: rewarded([[1]]) })
    const error = async (...args: readonly string[]): Promise<string> => {
      const { code, stderr } = await evals('compare', args)
      expect(code).toBe(2)
      return stderr
    }
    expect(await error('a', 'c')).toMatch(/There is no run c in .*: there are a, b\./)
    expect(await error('a', 'b')).toMatch(
      /^error: a and b have no row in common that has ended in both/,
    )
    expect(await error('b', 'a', '--by', 'color')).toMatch(/have no color: there are Task\./)
    expect(await error('--fail-if-worse', 'a', 'b')).toMatch(
      /write --fail-if-worse=2, or the flag behind/,
    )
    expect(await error('a', 'b', '--metric', 'speed')).toMatch(/Allowed choices are pass, reward/)
  })
})
