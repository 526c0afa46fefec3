// Proves that every rollout of Agent Lightning is trained once with its own reward, or not at all for a
// reason that is known, while requests fail, the gateway pauses, and the worker is killed. The gateway
// is a fake that says what would be trained. Exit code 1 when something is wrong.
//
//   npx -y pnpm@12 run test:suite trainers [--rollouts <n>] [--seed <n>] [--break <way>]
//   npx -y pnpm@12 run test:suite trainers --rollouts 10000 --pause 60 --timeout 120 --abandoned 60
import { parseArgs } from 'node:util'

import { trainingRun } from './training-run.ts'
import { waysToBreak } from './worker-settings.ts'

const { values } = parseArgs({
  options: {
    rollouts: { type: 'string', default: '200' },
    seed: { type: 'string' },
    concurrency: { type: 'string', default: '32' },
    faults: { type: 'string', default: '0.1' },
    /** Seconds, as are those below. */
    pause: { type: 'string', default: '3' },
    timeout: { type: 'string', default: '15' },
    abandoned: { type: 'string', default: '3' },
    patience: { type: 'string', default: '20' },
    /** Breaks the worker on purpose, which has to be noticed. */
    break: { type: 'string' },
  },
})
const breaks = waysToBreak.find((way) => way === values.break)
if (breaks !== values.break) throw new Error(`there is no way to break called ${values.break}`)
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))

const started = performance.now()
const { ends, incidents, violations } = await trainingRun({
  rollouts: Number(values.rollouts),
  seed,
  concurrency: Number(values.concurrency),
  faultShare: Number(values.faults),
  pauseSeconds: Number(values.pause),
  timeoutSeconds: Number(values.timeout),
  abandonedAfterSeconds: Number(values.abandoned),
  patienceSeconds: Number(values.patience),
  breaks,
})
console.log(`${values.rollouts} rollouts with seed ${seed}`)
printCounts('\nhow they ended', ends)
printCounts('\nwhat happened on the way', incidents)
console.log('')
for (const violation of violations.slice(0, 50)) console.log(`WRONG ${violation}`)
const seconds = ((performance.now() - started) / 1000).toFixed(0)
console.log(`${violations.length} violations in ${seconds} s`)
process.exit(violations.length > 0 ? 1 : 0)

function printCounts(title: string, counts: ReadonlyMap<string, number>): void {
  console.log(title)
  for (const [name, count] of [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    console.log(`${String(count).padStart(7)}  ${name}`)
  }
}
