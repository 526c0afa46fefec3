import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { bin, osmosis, temporaryFolder, workspace } from './osmosis.ts'

const sums = ['-d', 'data/sums.jsonl', '--policy', 'policies/adding.ts']

it.each([
  ['validate', '-m', 'rollouts/agent-loops/holding.ts'],
  ['test', '-m', 'rollouts/agent-loops/holding.ts:missing', ...sums],
])('osmosis %s ends although code of the user holds the process open', async (...args) => {
  const { code } = await osmosis(args)
  expect(code).toBe(args.includes('rollouts/agent-loops/holding.ts:missing') ? 1 : 0)
})

it('goes on with an evaluation although nobody reads what it prints', async () => {
  const output = temporaryFolder()
  const words = `eval run -m rollouts/agent-loops/adder.ts:agentLoop -o ${output} --name r --n 3`
  const line = [process.execPath, bin, ...words.split(' '), ...sums].map((word) => `'${word}'`)
  await promisify(execFile)('sh', ['-c', `${line.join(' ')} 2>&1 | head -1`], { cwd: workspace })
  const progress = readFileSync(path.join(output, 'r/progress.json'), 'utf8')
  expect(JSON.parse(progress)).toMatchObject({ status: 'finished', done: 12 })
})

it('writes the results although nobody reads the rest of the output', async () => {
  const output = path.join(temporaryFolder(), 'results.json')
  const command = [process.execPath, bin, 'test', '-m', 'rollouts/agent-loops/adder.ts:agentLoop']
  const line = [...command, ...sums, '-o', output].map((word) => `'${word}'`).join(' ')
  await promisify(execFile)('sh', ['-c', `${line} | head -1`], { cwd: workspace })
  expect(JSON.parse(readFileSync(output, 'utf8'))).toMatchObject({ summary: { total: 4 } })
})
