import { execFile } from 'node:child_process'
import path from 'node:path'

import { withPrograms } from '@osmosis/testing/kit/with-programs'
import { expect } from 'vitest'

/** Ends what hangs, on a machine that is as busy as may be. */
const timeout = 600_000
const lastSeed = 10

/** Runs the program of the distributed run, as a person would. */
async function distributedRun(args: readonly string[]): Promise<{ code: unknown; stdout: string }> {
  const main = path.join(import.meta.dirname, 'main.ts')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { timeout }, (error, stdout) => {
      resolve({ code: error?.code ?? 0, stdout })
    })
  })
}

withPrograms('redis-server').it.concurrent.each([
  ['no mark', 'killed workers', /^WRONG killed-workers-\d+: asked the policy in two runs: /m],
  ['no AOF', 'killed Redis', /^WRONG killed-Redis-\d+: has no end/m],
  ['double', 'lost events', /^WRONG lost-events-\d+: \w+ was told as .* and as /m],
])(
  'what is broken on purpose (%s) makes a case fail (%s), and name its seed',
  { timeout },
  async (way, name, wrong) => {
    // Nothing else is waited for until the patience is over.
    const patience = way === 'no AOF' ? '20' : '200'
    const noticed = async (seed: number): Promise<void> => {
      const fixed = ['--rollouts', '120', '--seed', String(seed), '--patience', patience]
      const { code, stdout } = await distributedRun([name, ...fixed, '--break', way])
      // Whether a kill meets what is broken is a matter of luck: other seeds have more of it.
      if (!wrong.test(stdout) && seed < lastSeed) return noticed(seed + 1)
      expect(stdout).toMatch(wrong)
      expect(stdout).toContain(
        `again: test:distributed '${name}' --rollouts 120 --seed ${seed} --break '${way}'`,
      )
      expect(code).toBe(1)
      return undefined
    }
    await noticed(7)
  },
)
