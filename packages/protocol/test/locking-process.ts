// Locks a folder ten times, and writes an account of it:
//   node locking-process.ts <folder> <account>               kills itself while it has the lock for the fifth time
//   node locking-process.ts <folder> <account> <namespace>   as if it were on another host
import { appendFileSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'
import { FolderLock } from '@osmosis/protocol/files'

const [folder = '', account = '', namespace] = process.argv.slice(2)
const refused = new OsmosisError('run_locked', 'refused')

async function lock(): Promise<FolderLock> {
  for (;;) {
    try {
      return await FolderLock.acquire(folder, {
        isTemporary: true,
        namespace,
        heartbeatMs: 10,
        // Does not pass in a test: what counts is that the system closes the sockets of killed processes.
        deadAfterMs: 600_000,
        inUse: () => refused,
        takenOver: () => refused,
      })
    } catch (error) {
      if (error !== refused) throw error
      await sleep(1)
    }
  }
}

for (let turn = 1; turn <= 10; turn += 1) {
  const held = await lock()
  // A killed owner has written that it was killed.
  if (readFileSync(account, 'utf8').endsWith('locked\n')) appendFileSync(account, 'two owners\n')
  appendFileSync(account, 'locked\n')
  await sleep(Math.random() * 4)
  held.assertHeld()
  if (namespace === undefined && turn === 5) {
    appendFileSync(account, 'killed\n')
    process.kill(process.pid, 'SIGKILL')
  }
  appendFileSync(account, 'released\n')
  await held.release()
}
