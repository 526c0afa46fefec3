import { execFile } from 'node:child_process'
import path from 'node:path'

import { expect, it } from 'vitest'

/** Runs the program of the fault run, as a person would. */
async function faultRun(...args: string[]): Promise<{ code: unknown; stdout: string }> {
  const main = path.join(import.meta.dirname, 'main.ts')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], (error, stdout, stderr) => {
      // A run that broke says there why.
      resolve({ code: error?.code ?? 0, stdout: stdout + stderr })
    })
  })
}

it.concurrent.each([
  ['double', /^WRONG rollout-\d+: \w+ was told as .* and as /m],
  ['drop', /^WRONG rollout-\d+: has no end/m],
  ['lie', /^WRONG rollout-\d+: has the reward 0\.25, which it did not earn/m],
  ['embellish', /^WRONG rollout-\d+: succeeded without a reward/m],
])(
  'a delivery that is broken (%s) makes the fault run fail, and name its seed',
  async (way, wrong) => {
    const { code, stdout } = await faultRun('60', '--seed', '7', '--patience', '20', '--break', way)
    expect(stdout).toMatch(wrong)
    expect(stdout).toMatch(/^again: test:faults 60 --seed 7 --break /m)
    expect(code).toBe(1)
  },
)
