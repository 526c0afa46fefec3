import { execFile } from 'node:child_process'
import path from 'node:path'

import { expect, it } from 'vitest'

/** Ends what hangs, on a machine that is as busy as may be. */
const timeout = 600_000
const lastSeed = 10

/** Runs the program of the training run, as a person would. */
async function trainingRun(args: readonly string[]): Promise<{ code: unknown; stdout: string }> {
  const main = path.join(import.meta.dirname, 'main.ts')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { timeout }, (error, stdout) => {
      resolve({ code: error?.code ?? 0, stdout })
    })
  })
}

it.concurrent.each([
  ['zeros', /^WRONG rollout-\d+ \(throws\): was trained with 0, although it had no reward$/m],
  ['swaps', /^WRONG rollout-\d+ \(rewarded\): was trained with [\d.]+ instead of [\d.]+$/m],
  ['forgets', /^WRONG rollout-\d+ \([\w ]+\): has no end, and is running$/m],
  ['no reaping', /^WRONG rollout-\d+ \([\w ]+\): has no end, and is running$/m],
])('a worker that is broken on purpose (%s) is noticed', { timeout }, async (way, wrong) => {
  const times = ['--pause', '1', '--timeout', '8', '--abandoned', '2', '--patience', '10']
  for (let seed = 7; ; seed += 1) {
    const args = ['--rollouts', '160', '--concurrency', '16', '--seed', String(seed), ...times]
    const { code, stdout } = await trainingRun([...args, '--break', way])
    // A kill excuses what ran then, so enough has to run after the last one; other seeds have more of it.
    if (!wrong.test(stdout) && seed < lastSeed) continue
    expect(stdout).toMatch(wrong)
    expect(code).toBe(1)
    return
  }
})
