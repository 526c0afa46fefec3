import { execFile } from 'node:child_process'
import path from 'node:path'

import { expect, it } from 'vitest'

/** Ends what hangs, on a machine that is as busy as may be. */
const timeout = 600_000

/** Runs the program of the fault run, as a person would. */
async function faultRun(...args: string[]): Promise<{ code: unknown; stdout: string }> {
  const main = path.join(import.meta.dirname, 'main.ts')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { timeout }, (error, stdout, stderr) => {
      // A run that broke says there why.
      resolve({ code: error?.code ?? 0, stdout: stdout + stderr })
    })
  })
}

it(
  'a delivery that is broken in each way makes the fault run fail, and name its seed',
  { timeout },
  async () => {
    const fixed = ['60', '--seed', '11', '--patience', '30']
    const { code, stdout } = await faultRun(...fixed, '--break', 'each')
    expect(stdout).toMatch(/^WRONG rollout-\d+: \w+ was told as .* and as /m)
    expect(stdout).toMatch(/^WRONG rollout-\d+: has no end/m)
    expect(stdout).toMatch(/^WRONG rollout-\d+: has the reward 0\.25, which it did not earn/m)
    expect(stdout).toMatch(/^WRONG rollout-\d+: succeeded without a reward/m)
    expect(stdout).toMatch(/^again: test:faults 60 --seed 11 --break /m)
    expect(code).toBe(1)
  },
)
