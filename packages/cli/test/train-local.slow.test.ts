import { appendFileSync, chmodSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { examples, exampleFiles, writeNewFiles } from '@osmosis/create'
import { pythonWithTorch, tinyTransformer, withTorch } from '@osmosis/testing/kit'
import { expect } from 'vitest'

import { osmosis, startOsmosis, temporaryFolder } from './osmosis.ts'

const { it } = withTorch()
const limit = { timeout: 300_000 }
const config = 'configs/training/doors.toml'

/** The workspace of the example, and flags for a learner that needs no transformers. */
async function doorsWorkspace(): Promise<{ folder: string; learner: readonly string[] }> {
  const folder = temporaryFolder()
  await writeNewFiles(folder, exampleFiles('doors', 'doors'))
  symlinkSync(
    path.resolve(import.meta.dirname, '../node_modules'),
    path.join(folder, 'node_modules'),
  )
  const python = path.join(folder, 'python')
  writeFileSync(
    python,
    `#!/bin/sh\nOMP_NUM_THREADS=1 exec ${pythonWithTorch()} "$@" --policy-class ${tinyTransformer}\n`,
  )
  chmodSync(python, 0o755)
  return {
    folder,
    learner: ['--model', 'tiny', '--python', python, '--lora-rank', '0', '--lr', '1e-3'],
  }
}

it('the example learns: better by the comparison, and each step is a run', limit, async () => {
  const { folder, learner } = await doorsWorkspace()
  const args = ['train', 'local', config, ...learner, '--passes', '2', '--steps', '8']
  const plan = await osmosis([...args, '--dry-run'], {}, folder)
  expect(plan.code).toBe(0)
  expect(plan.stderr).toMatch(/^Time {6}roughly .* a step, if each conversation/m)
  expect(plan.stderr).toContain('64 to train, 16 held out')
  expect(plan.stderr).toContain('8 of 16 rows × 8 attempts = 1,024 rollouts')

  const { code, stdout, stderr } = await osmosis(args, {}, folder)
  expect(stderr).toMatch(/^step {3}1 {2}reward 0\.[0-4]/m)
  expect(stderr).toMatch(/^step {3}2 .* about .* left$/m)
  expect(stdout).toMatch(/^Better by 0\.\d+, with 95 % confidence/m)
  expect(code).toBe(0)
  expect(stderr).toMatch(/^Watch it .*npx osmosis eval view .osmosis\/training\/doors$/m)
  const curve = await osmosis(['eval', 'show', 'doors'], {}, folder)
  expect(curve.stdout).toContain('doors  finished · 8 of 8 steps')
  expect(curve.stdout).toMatch(/^Held out {2}reward 0\.\d+ → 0\.\d+$/m)
  const shown = await osmosis(['eval', 'show', 'doors/step-0002'], {}, folder)
  expect(shown.stdout).toContain('Reward')
  const [row = ''] = /(?<=eval show doors )\d+/.exec(curve.stdout) ?? []
  const history = await osmosis(['eval', 'show', 'doors', row], {}, folder)
  expect(history.stdout).toMatch(new RegExp(`^Row ${row} of doors: `))
  const item = await osmosis(['eval', 'show', 'doors/step-0008', `${row}.1`], {}, folder)
  expect(item.stdout).toContain('What is the code of door')

  // Its checkpoints are evaluated with one learner, and compared.
  const entrypoint = ['-m', 'rollouts/doors/main.ts', '-d', 'data/doors.jsonl']
  const evaluate = ['eval', 'run', ...entrypoint, '--checkpoints', '.osmosis/training/doors']
  const flags = ['--rows', '0-9', '--n', '2', '--name', 'doors', '--json', '--quiet']
  const compared = await osmosis([...evaluate, ...flags], {}, folder)
  expect(compared.code).toBe(0)
  const made = JSON.parse(compared.stdout) as { label: string; run: string; model: string }[]
  expect(made.length).toBeGreaterThanOrEqual(3)
  expect(made.at(-1)).toMatchObject({
    label: 'step-0008',
    run: 'doors-step-0008',
    model: expect.stringMatching(/@\d+$/),
  })
  const refused = await osmosis([...evaluate, '--model', 'gpt'], {}, folder)
  expect(refused.stderr).toContain('--model and --checkpoints exclude each other')
  const nowhere = await osmosis(['eval', 'run', ...entrypoint, '--checkpoints', 'data'], {}, folder)
  expect(nowhere.stderr).toContain('has no checkpoints of osmosis train local')
})

it('continues after Ctrl-C, and refuses when code or rows have changed', limit, async () => {
  const { folder, learner } = await doorsWorkspace()
  const args = ['train', 'local', config, ...learner, '--steps', '3', '--n', '2']
  const first = startOsmosis(args, {}, folder)
  await first.printed(/^step {3}1 /m)
  first.child.kill('SIGINT')
  const interrupted = await first.finished
  expect(interrupted.code).toBe(130)
  expect(interrupted.stderr).toContain('The same command continues with the training.')

  const main = path.join(folder, 'rollouts/doors/main.ts')
  const code = readFileSync(main, 'utf8')
  appendFileSync(main, '// changed\n')
  const changed = await osmosis(args, {}, folder)
  expect(changed.code).toBe(2)
  expect(changed.stderr).toContain('- code of the rollout: changed')
  expect(changed.stderr).toContain('--fresh')

  writeFileSync(main, code)
  const continued = await osmosis(args, {}, folder)
  expect(continued.code).toBe(0)
  expect(continued.stderr).not.toMatch(/^step {3}1 /m)
  expect(continued.stderr).toMatch(/^step {3}3 /m)
  expect(continued.stdout).toContain('All steps are done.')
})

it('the commands of the example are those that it prints', () => {
  const readme = exampleFiles('doors', 'doors').get('README.md') ?? ''
  for (const step of examples.doors.steps) expect(readme).toContain(`\n${step}\n`)
})
