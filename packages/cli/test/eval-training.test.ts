import path from 'node:path'

import { expect, it } from 'vitest'

import { writeTraining } from '../../viewer/test/synthetic/training.ts'
import { run as osmosis, workIn } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

const made = { name: 'airline', steps: 30, rows: 16, rowsPerStep: 8, attempts: 4 }

/** Makes it in a folder of its own, in which the commands of the test then run. */
async function trained(): Promise<void> {
  const folder = temporaryFolder()
  workIn(folder)
  await writeTraining(path.join(folder, '.osmosis', 'training'), made)
}

it('shows the curve of a training, its alarms, and the commands to go on', async () => {
  await trained()
  const { code, stdout } = await osmosis(['eval', 'show', 'airline'])
  expect(code).toBe(0)
  expect(stdout).toContain('airline  finished · 30 of 30 steps')
  expect(stdout).toMatch(/^Held out {2}reward 0\.\d{3} → 0\.\d{3}$/m)
  expect(stdout).toMatch(/^ {3}1 {3}0\.\d{3} {2}█.*  \d\/8 .* s$/m)
  expect(stdout).toContain('10 steps in between: --details shows them')
  expect(stdout).toMatch(
    /4 alarms, the newest first\n {2}step 24: 31 % of the answers were cut off/,
  )
  expect(stdout).toContain('osmosis eval show airline/step-0024')
  const { stdout: whole } = await osmosis(['eval', 'show', 'airline', '--details'])
  expect(whole.match(/^ +\d+ {3}0\.\d{3}/gm)).toHaveLength(30)
  const { stdout: json } = await osmosis(['eval', 'show', 'airline', '--json'])
  expect(JSON.parse(json)).toMatchObject({ name: 'airline', records: { length: 34 } })
})

it('shows one row over the steps, and the rollouts of a step', async () => {
  await trained()
  const { stdout } = await osmosis(['eval', 'show', 'airline', '3'])
  expect(stdout).toMatch(/^Row 3 of airline: (learned|fell|passes|not)/)
  expect(stdout.match(/^ +\d+ {2}\d of 4/gm)).toHaveLength(15)
  const { stdout: json } = await osmosis(['eval', 'show', 'airline', '3', '--json'])
  expect(JSON.parse(json)).toMatchObject({ row: 3, steps: { length: 15 } })
  const step = await osmosis(['eval', 'show', 'airline/step-0007'])
  expect(step.stdout).toContain('step-0007  finished')
  const both = await osmosis(['eval', 'compare', 'airline/step-0001', 'airline/step-0029'])
  expect(both.code).toBe(0)
})

it('says what there is instead of a row or step that does not exist', async () => {
  await trained()
  const row = await osmosis(['eval', 'show', 'airline', '99'])
  expect(row.stderr).toContain('No step of airline has drawn row 99: there are 30 steps')
  const attempt = await osmosis(['eval', 'show', 'airline', '3.1'])
  expect(attempt.stderr).toContain('osmosis eval show airline/step-0001 3.1')
  const step = await osmosis(['eval', 'show', 'airline/step-0099'])
  expect(step.code).not.toBe(0)
  expect(step.stderr).toContain('step-0099')
})
