// What the engine of evaluations costs beside the rollouts: items that end at once, with a store that
// keeps each before it counts and without one, and 100,000 of them in one process.
//
//   npx -y pnpm@12 run bench engine [items] [items of the large run] [folder on the disk to measure]
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import type { EngineFigures, EngineTask } from './engine-under-test.ts'
import { rounded } from './figures.ts'

const items = Number(process.argv[2] ?? 4000)
const large = Number(process.argv[3] ?? 100_000)
const folder = await mkdtemp(path.join(process.argv[4] ?? tmpdir(), 'osmosis-engine-'))
const results: Record<string, EngineFigures> = {}

/** Each in a process of its own: memory at its peak is that of the process. */
async function measure(task: Omit<EngineTask, 'folder'>): Promise<EngineFigures> {
  const worker = path.join(import.meta.dirname, 'engine-under-test.ts')
  const child = fork(worker, [JSON.stringify({ ...task, folder })], { execArgv: ['--expose-gc'] })
  const [figures] = (await once(child, 'message')) as [EngineFigures]
  await once(child, 'close')
  results[
    `${task.items} items, ${task.inFlight} in flight, ${task.store ? 'durable' : 'without a store'}`
  ] = figures
  return figures
}

try {
  const table: Record<string, object> = {}
  for (const inFlight of [4, 16, 64]) {
    const without = await measure({ items, inFlight, store: false })
    const durable = await measure({ items, inFlight, store: true })
    table[`${inFlight} in flight`] = {
      'without a store, per s': Math.round(items / without.seconds),
      'durable, per s': Math.round(items / durable.seconds),
      'CPU without, ms each': perItem(without.cpuSeconds),
      'CPU durable, ms each': perItem(durable.cpuSeconds),
    }
  }
  console.table(table)
  const { seconds, peakMiB, liveMiB, refreshSeconds, finalSeconds } = await measure({
    items: large,
    inFlight: 64,
    store: true,
  })
  console.table({
    [`${large} items, s`]: { measured: rounded(seconds), goal: '' },
    'memory at its peak, MiB': { measured: peakMiB, goal: 'at most 450' },
    'live heap at the end, MiB': { measured: liveMiB, goal: '' },
    'snapshots while it runs, % of the time': {
      measured: rounded((100 * refreshSeconds) / seconds),
      goal: 'at most 5',
    },
    'snapshots at its end, s': { measured: rounded(finalSeconds), goal: '' },
  })
  console.log(JSON.stringify({ node: process.version, results }))
} finally {
  await rm(folder, { recursive: true, force: true })
}

function perItem(seconds: number): number {
  return rounded((1000 * seconds) / items)
}
