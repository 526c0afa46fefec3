// Proves that every rollout has one end, told as often as needed and never differently, while callers,
// policies, user code and servers fail in every way there is. Prints its account; exit code 1 when
// something in it is wrong.
//
//   npx -y pnpm@12 run test:faults [rollouts] [--seed <n>] [--patience <seconds>] [--break <way>]
import { parseArgs } from 'node:util'

import type { Account } from './account.ts'
import { isWayToBreak } from './broken-delivery.ts'
import { runFaults } from './fault-run.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    /** How long a caller waits for the end of its rollout. */
    patience: { type: 'string', default: '150' },
    /** Breaks deliveries behind the server, which has to be noticed. */
    break: { type: 'string' },
  },
})
const rollouts = Number(positionals[0] ?? 600)
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
const { break: way } = values
if (way !== undefined && !isWayToBreak(way))
  throw new Error(`there is no way to break called ${way}`)

console.log(`${rollouts} rollouts with seed ${seed}`)
const begun = performance.now()
const patienceSeconds = Number(values.patience)
const account = await runFaults({ rollouts, seed, patienceSeconds, breaks: way })
printAccount(account)
const seconds = ((performance.now() - begun) / 1000).toFixed(0)
const { violations } = account
for (const violation of violations.slice(0, 50)) console.log(`WRONG ${violation}`)
console.log(`${violations.length} violations among ${rollouts} rollouts in ${seconds} s`)
if (violations.length > 0) {
  console.log(`again: test:faults ${rollouts} --seed ${seed}${way ? ` --break ${way}` : ''}`)
}
process.exit(violations.length > 0 ? 1 : 0)

function printAccount({ faults }: Account): void {
  const ends = new Map<string, number>()
  for (const { plan, end = 'NO END' } of account.ends()) {
    const name = `${plan.kind.padEnd(9)} ${end}`
    ends.set(name, (ends.get(name) ?? 0) + 1)
  }
  console.log('\nhow rollouts ended')
  printCounts(ends)
  console.log('\nwhat went wrong on the way')
  printCounts(faults)
  console.log('')
}

function printCounts(counts: ReadonlyMap<string, number>): void {
  for (const [name, count] of [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    console.log(`${String(count).padStart(7)}  ${name}`)
  }
}
