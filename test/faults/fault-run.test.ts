import { execFile } from 'node:child_process'
import path from 'node:path'

import { expect, it } from 'vitest'

/** Long enough for a very busy machine. */
const timeout = 600_000

/** Runs the fault run from its command line. */
async function faultRun(...args: string[]): Promise<{ code: unknown; stdout: string }> {
  const main = path.join(import.meta.dirname, 'main.ts')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { timeout }, (error, stdout, stderr) => {
      // Errors of the run itself are on stderr.
      resolve({ code: error?.code ?? 0, stdout: stdout + stderr })
    })
  })
}

it('fails with its seed when deliveries are broken in each way', { timeout }, async () => {
  const fixed = ['60', '--seed', '11', '--patience', '30']
  const { code, stdout } = await faultRun(...fixed, '--break', 'each')
  expect(stdout).toMatch(/^WRONG rollout-\d+: \w+ was delivered as .* and as /m)
  expect(stdout).toMatch(/^WRONG rollout-\d+: has no end/m)
  expect(stdout).toMatch(/^WRONG rollout-\d+: has the reward 0\.25, which it did not earn/m)
  expect(stdout).toMatch(/^WRONG rollout-\d+: succeeded without a reward/m)
  expect(stdout).toMatch(/^again: test:suite faults 60 --seed 11 --break /m)
  expect(code).toBe(1)
})
