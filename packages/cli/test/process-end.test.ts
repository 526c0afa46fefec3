import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { bin, osmosis, temporaryFolder, workspace } from './osmosis.ts'
import { storedItem, storeRun } from './stored-runs.ts'

const sums = ['-d', 'data/sums.jsonl', '--policy', 'policies/adding.ts']

it.each([['test', '-m', 'rollouts/agent-loops/holding.ts', '--limit', '1', ...sums]])(
  'osmosis %s ends although code of the user holds the process open',
  { tags: 'slow' },
  async (...args) => {
    expect(await osmosis(args)).toMatchObject({ code: 0 })
  },
)

it('ends silently when the reader of eval export --csv exits', { tags: 'slow' }, async () => {
  const output = temporaryFolder()
  const items = Array.from({ length: 300 }, (_, row) => storedItem(row, 'a'.repeat(2000), 1))
  await storeRun(output, items)
  const words = [process.execPath, bin, 'eval', 'export', 'stored', '--csv', '-', '-o', output]
  const line = words.map((word) => `'${word}'`).join(' ')
  const { stderr } = await promisify(execFile)('sh', ['-c', `(${line}; echo $? >&2) | head -1`])
  expect(stderr).toMatch(/^stdout: \d+ rollouts\n0\n$/)
})

const linux = onlyIf(process.platform === 'linux', 'Linux')

linux.it(
  'eval show ends with 1 and says why when the disk of its output is full',
  { tags: 'slow' },
  async () => {
    await expectFullDisk('eval', 'show', 'stored')
  },
)

async function expectFullDisk(...words: string[]): Promise<void> {
  const output = temporaryFolder()
  const items = Array.from({ length: 300 }, (_, row) => storedItem(row, 'a'.repeat(2000), 1))
  await storeRun(output, items)
  const command = ['-c', '"$0" "$@" > /dev/full', process.execPath, bin, ...words, '-o', output]
  const ended = promisify(execFile)('sh', command)
  await expect(ended).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^error: Cannot write to the standard output: ENOSPC/m),
  })
}

it(
  'continues an evaluation when the reader of its output has exited',
  { tags: 'nightly' },
  async () => {
    const output = temporaryFolder()
    const words = `eval run -m rollouts/agent-loops/adder.ts:agentLoop -o ${output} --name r --n 3`
    const line = [process.execPath, bin, ...words.split(' '), ...sums].map((word) => `'${word}'`)
    await promisify(execFile)('sh', ['-c', `${line.join(' ')} 2>&1 | head -1`], { cwd: workspace })
    const progress = readFileSync(path.join(output, 'r/progress.json'), 'utf8')
    expect(JSON.parse(progress)).toMatchObject({ status: 'finished', done: 12 })
  },
)

it('writes the results when the reader of its output has exited', { tags: 'nightly' }, async () => {
  const output = path.join(temporaryFolder(), 'results.json')
  const command = [process.execPath, bin, 'test', '-m', 'rollouts/agent-loops/adder.ts:agentLoop']
  const line = [...command, ...sums, '-o', output].map((word) => `'${word}'`).join(' ')
  await promisify(execFile)('sh', ['-c', `${line} | head -1`], { cwd: workspace })
  expect(JSON.parse(readFileSync(output, 'utf8'))).toMatchObject({ summary: { total: 4 } })
})
