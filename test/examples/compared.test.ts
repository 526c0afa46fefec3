import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../kit/index.ts'
import { root } from './command.ts'
import { osmosis } from './osmosis.ts'

it('the example of a grader of groups compares the attempts at each row', async () => {
  const output = await temporaryFolder()
  const what = '-m examples/rollouts/multiply-ai-sdk/compared.ts -d examples/data/multiply.jsonl'
  const policy = '--policy examples/policies/arithmetic.ts --limit 3 --n 4'
  const words = `eval run ${what} ${policy} --output ${output} --name r --yes`.split(' ')
  const { code, stderr } = await osmosis(words, root)
  expect([code, stderr]).toEqual([0, expect.stringContaining('3 rows × 4 attempts')])

  const lines = (await readFile(path.join(output, 'r/index.jsonl'), 'utf8')).trimEnd().split('\n')
  const rewards = lines.map((line) => (JSON.parse(line) as { reward: number | null }).reward)
  expect(rewards).toHaveLength(12)
  for (const reward of rewards) expect(reward === 0 || (reward ?? 0) >= 0.5).toBe(true)
  expect(Math.max(...rewards.map(Number))).toBe(1)
})
