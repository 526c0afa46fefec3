import { execFile } from 'node:child_process'
import path from 'node:path'

import { expect } from 'vitest'

import { withPrograms } from '../kit/with-programs.ts'

/** Long enough for a very busy machine. */
const timeout = 600_000
const lastSeed = 16

/** Runs the distributed run from its command line. */
async function distributedRun(args: readonly string[]): Promise<{ code: unknown; stdout: string }> {
  const main = path.join(import.meta.dirname, 'main.ts')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { timeout }, (error, stdout) => {
      resolve({ code: error?.code ?? 0, stdout })
    })
  })
}

withPrograms('redis-server').it.concurrent.each([
  [
    'no mark',
    'killed workers',
    /^WRONG killed-workers-\d+: called the policy in two executions: /m,
  ],
  ['no AOF', 'killed Redis', /^WRONG killed-Redis-\d+: has no end/m],
  ['double', 'lost events', /^WRONG lost-events-\d+: \w+ was delivered as .* and as /m],
])(
  'fails with its seed when something is broken (%s) in a case (%s)',
  { timeout },
  async (way, name, wrong) => {
    // Only the case without AOF waits until its patience is over.
    const patience = way === 'no AOF' ? '20' : '200'
    // A busy machine takes long to start a killed worker again: with fewer rollouts, two of four kills come.
    const rollouts = way === 'no mark' ? '240' : '120'
    const noticed = async (seed: number): Promise<void> => {
      const fixed = ['--rollouts', rollouts, '--seed', String(seed), '--patience', patience]
      const { code, stdout } = await distributedRun([name, ...fixed, '--break', way])
      // A kill may miss what is broken, so other seeds are tried.
      if (!wrong.test(stdout) && seed < lastSeed) return noticed(seed + 1)
      expect(stdout).toMatch(wrong)
      expect(stdout).toContain(
        `again: test:suite distributed '${name}' --rollouts ${rollouts} --seed ${seed} --break '${way}'`,
      )
      expect(code).toBe(1)
      return undefined
    }
    await noticed(7)
  },
)
