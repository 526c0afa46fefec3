// Runs the items that a run lacks, as an evaluation would, until it is killed:
//
//   node crash-writer.ts <location> <items at most, or Infinity> <bytes of text>
//
// Lines of output: `start <item>`, `ended <item>` when it has been acknowledged, `failed <message>`.
import { writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

import { isOsmosisError } from '@osmosis/core'
import { resumeRun } from '@osmosis/eval'

import { inFlight } from './crashes.ts'
import { itemOf } from './runs.ts'

const [location = '', most = '', bytes = ''] = process.argv.slice(2)
const store = await resumeRun({ location })
const { rows, n } = store.manifest
const pending = rows
  .flatMap((_, row) => Array.from({ length: n }, (__, attempt) => [row, attempt] as const))
  .filter(([row, attempt]) => !store.events.has(`${row}.${attempt}`))
  .slice(0, Number(most))

let hasFailed = false
async function work(): Promise<void> {
  for (let item = pending.shift(); item !== undefined; item = pending.shift()) {
    const [row, attempt] = item
    // Written at once: what a pipe still held would be lost with the process.
    writeSync(1, `start ${row}.${attempt}\n`)
    await sleep(Math.random() * 5)
    try {
      await store.commit(itemOf(row, attempt, 'x'.repeat(Number(bytes))))
      writeSync(1, `ended ${row}.${attempt}\n`)
    } catch (error) {
      if (!isOsmosisError(error) || error.code !== 'storage_error') throw error
      hasFailed = true
      writeSync(1, `failed ${error.message}\n`)
      return
    }
  }
}
await Promise.all(Array.from({ length: inFlight }, work))
if (hasFailed || most === 'Infinity') {
  await store.close()
} else {
  // The test kills this process, unless it has exited by itself.
  setTimeout(() => process.exit(1), 60_000)
}
