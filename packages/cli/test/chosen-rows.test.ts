import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

/** A dataset of 20 rows, of which every fourth is of the split validation and every fifth of test. */
function splitDataset(): string {
  const file = path.join(temporaryFolder(), 'rows.jsonl')
  const rows = Array.from({ length: 20 }, (_, at) => ({
    user_prompt: `word ${at}`,
    ground_truth: `WORD ${at}`,
    metadata: { split: at % 4 === 0 ? 'validation' : at % 5 === 1 ? 'test' : 'train' },
  }))
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join('\n'))
  return file
}

describe('rows of an evaluation', () => {
  it('are drawn by metadata and seed, recorded, and the same when the run is resumed', async () => {
    const output = temporaryFolder()
    const words =
      'eval run configs/eval/echo.toml --policy policies/echo.ts --no-grader --n 1 --name drawn --quiet --where split=test --where split=train --sample 5 --seed 3'
    const args = [...words.split(' '), '--dataset', splitDataset(), '--output', output]
    const ended = await run(args)
    expect(ended).toMatchObject({ stderr: '', code: 0 })
    const manifest = path.join(output, 'drawn', 'manifest.json')
    const rowsOf = (): number[] => {
      const { rows } = JSON.parse(readFileSync(manifest, 'utf8')) as {
        rows: { source_row: number }[]
      }
      return rows.map(({ source_row: row }) => row)
    }
    const rows = rowsOf()
    expect(rows).toHaveLength(5)
    expect(rows.filter((row) => row % 4 === 0)).toEqual([])
    expect((await run(args)).code).toBe(0)
    expect(rowsOf()).toEqual(rows)
  })
})

describe('rows of a training', () => {
  const config = 'configs/training/doors.toml'
  const key = { TINKER_API_KEY: 'tml-0123456789abcdef' }
  const plan = async (...flags: string[]): ReturnType<typeof run> =>
    run(['train', 'tinker', config, '--dry-run', '--dataset', splitDataset(), ...flags], key)

  it('are never of the split test', async () => {
    const { code, stderr } = await plan()
    expect(code).not.toBe(0)
    expect(stderr).toContain(
      'The rows to train have rows of the split "test": line 2, line 7, line 12. Pass --where split=train, or remove them from the dataset.',
    )
    const own = await plan('--held-out', splitDataset(), '--where', 'split=validation')
    expect(own.stderr).toContain('The rows to train have rows of the split "validation": line 1,')
  })

  it('leave the split validation to the evaluations before and after', async () => {
    const chosen = await plan('--where', 'split=train')
    expect(chosen.stderr).toContain('12 to train, 5 held out')
    const drawn = await plan('--where', 'split=train', '--sample', '4')
    expect(drawn.stderr).toContain('4 to train, 5 held out')
  })
})
