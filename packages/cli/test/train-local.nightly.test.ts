import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { withTorch } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { doorsTraining, doorsWorkspace } from './doors-workspace.ts'
import { osmosis } from './osmosis.ts'

const { it } = withTorch()

it('the example learns: better by the comparison', { timeout: 900_000 }, async () => {
  const { folder, learner } = await doorsWorkspace()
  const config = path.join(folder, doorsTraining)
  writeFileSync(
    config,
    readFileSync(config, 'utf8').replace('[training]', '[training]\npasses = 2'),
  )
  const args = ['train', 'local', doorsTraining, ...learner, '--steps', '8']
  const plan = await osmosis([...args, '--dry-run'], {}, folder)
  expect(plan.code).toBe(0)
  expect(plan.stderr).toContain('64 to train, 16 held out')
  expect(plan.stderr).toContain('8 of 16 rows × 8 attempts = 1,024 rollouts')

  const { code, stdout, stderr } = await osmosis(args, {}, folder)
  expect(stderr).toMatch(/^step {3}1 {2}reward 0\.[0-4]/m)
  expect(stderr).toMatch(/^step {3}2 .* about .* left$/m)
  expect(stdout).toMatch(/^Better by 0\.\d+, with 95 % confidence/m)
  expect(code).toBe(0)
  expect(stderr).toMatch(/^Watch it .*osmosis eval view doors$/m)
})
