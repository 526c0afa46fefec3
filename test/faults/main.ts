// Checks that every rollout has one outcome, delivered as often as needed and always the same, while callers,
// policies, user code and servers fail in many ways. Prints its account; exits with code 1 when something is
// wrong.
//
//   npx -y pnpm@12 run test:suite faults [rollouts] [--seed <n>] [--patience <seconds>] [--break <way>]
import { parseArgs } from 'node:util'

import { isWayToBreak } from './broken-delivery.ts'
import { runFaults } from './fault-run.ts'
import { printAccount } from './printed-account.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    /** How long a caller waits for the end of its rollout. */
    patience: { type: 'string', default: '150' },
    /** Breaks deliveries, which the account must detect. */
    break: { type: 'string' },
  },
})
const rollouts = Number(positionals[0] ?? 300)
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
const { break: way } = values
if (way !== undefined && !isWayToBreak(way)) throw new Error(`unknown value of --break: ${way}`)

console.log(`${rollouts} rollouts with seed ${seed}`)
const started = performance.now()
const patienceSeconds = Number(values.patience)
const account = await runFaults({ rollouts, seed, patienceSeconds, breaks: way })
printAccount(account)
const seconds = ((performance.now() - started) / 1000).toFixed(0)
const { violations } = account
console.log(`${violations.length} violations among ${rollouts} rollouts in ${seconds} s`)
if (violations.length > 0) {
  console.log(`again: test:suite faults ${rollouts} --seed ${seed}${way ? ` --break ${way}` : ''}`)
}
process.exit(violations.length > 0 ? 1 : 0)
