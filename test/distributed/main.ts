// Checks that each rollout of a queue has one outcome, delivered as often as needed and always the same, and
// calls the policy in one execution only, while workers, servers and Redis are killed. Each case has its own
// Redis, two servers and three workers. Exits with code 1 when something is wrong. OSMOSIS_REDIS_SERVER is the path of another
// server than the redis-server on PATH, as `bash .ci/redis-server valkey` prints one.
//
//   npx -y pnpm@12 run test:suite distributed [case …] [--rollouts <n>] [--seed <n>] [--times <n>]
//     [--at-once <cases>] [--patience <seconds>] [--break <way>]
import { parseArgs } from 'node:util'

import { isWayToBreak } from '../faults/broken-delivery.ts'
import { printAccount } from '../faults/printed-account.ts'
import { redisProgram } from '../kit/redis/redis-server.ts'
import { missingPrograms } from '../kit/with-programs.ts'
import { runCase, type Breakage } from './distributed-run.ts'
import { faultCases, isCaseName, type CaseName, type FaultCase } from './fault-cases.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rollouts: { type: 'string', default: '500' },
    seed: { type: 'string' },
    /** How often each case is run, each time with the next seed. */
    times: { type: 'string', default: '1' },
    'at-once': { type: 'string', default: '4' },
    /** How long a caller waits for the end of its rollout. */
    patience: { type: 'string', default: '300' },
    /** Breaks the product on purpose, which the account must detect. */
    break: { type: 'string' },
  },
})
if (redisProgram() === 'redis-server' && missingPrograms('redis-server').length > 0) {
  console.log('Nothing was run: redis-server is not installed (apt-get install redis-server).')
  process.exit(0)
}
const rollouts = Number(values.rollouts)
const firstSeed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
const patienceSeconds = Number(values.patience)
const breaks = toBreakage(values.break)
const names = positionals.map(toCaseName)
const cases = names.length > 0 ? names : Object.keys(faultCases).map(toCaseName)

const started = performance.now()
const runs = Array.from({ length: Number(values.times) }, (_, turn) =>
  cases.map((name) => ({ name, seed: firstSeed + turn })),
).flat()
const wrong: string[] = []
const queue = runs.values()
await Promise.all(
  Array.from({ length: Number(values['at-once']) }, async () => {
    for (const { name, seed } of queue) await show(name, seed)
  }),
)
console.log(`${runs.length} cases in ${secondsSince(started)} s, ${wrong.length} of them wrong`)
for (const line of wrong) console.log(line)
process.exit(wrong.length > 0 ? 1 : 0)

async function show(name: CaseName, seed: number): Promise<void> {
  const since = performance.now()
  const broken = breaks === undefined ? '' : ` --break '${breaks}'`
  const again = `'${name}' --rollouts ${rollouts} --seed ${seed}${broken}`
  let account
  try {
    account = await runCase({ name, rollouts, seed, patienceSeconds, breaks })
  } catch (error) {
    wrong.push(`again: test:suite distributed ${again}\n  could not be run: ${String(error)}`)
    return console.log(`\n=== ${name} with seed ${seed} could not be run:`, error)
  }
  const { shows }: FaultCase = faultCases[name]
  const seen = [...account.faults.keys(), ...[...account.ends()].map(({ end = '' }) => end)]
  for (const part of shows) {
    if (breaks === undefined && !seen.some((one) => part.test(one)))
      account.violated('-', `this did not happen: ${part.source}`)
  }
  const { length } = account.violations
  if (length > 0) {
    // Repeated at the end, because a long output may be truncated before it.
    const first = account.violations.slice(0, 3).map((violation) => `  ${violation}`)
    wrong.push([`again: test:suite distributed ${again}`, ...first].join('\n'))
  }
  console.log(`\n=== ${name}, ${rollouts} rollouts with seed ${seed}`)
  printAccount(account)
  return console.log(`${length} violations in ${secondsSince(since)} s`)
}

function toCaseName(name: string): CaseName {
  if (isCaseName(name)) return name
  throw new Error(`unknown case ${name}; the cases are ${Object.keys(faultCases).join(', ')}`)
}

function toBreakage(way: string | undefined): Breakage | undefined {
  if (way === undefined || way === 'no mark' || way === 'no AOF' || isWayToBreak(way)) return way
  throw new Error(`unknown value of --break: ${way}`)
}

function secondsSince(start: number): string {
  return ((performance.now() - start) / 1000).toFixed(0)
}
