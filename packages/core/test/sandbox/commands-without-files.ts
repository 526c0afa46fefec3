import { closeSync, openSync } from 'node:fs'
import { tmpdir } from 'node:os'

import { isOsmosisError } from '@osmosis/core'
import { LocalSandbox } from '@osmosis/core/sandbox'

// A process that runs commands while it has no free file descriptor, and afterwards.
const box = new LocalSandbox({ folder: tmpdir(), env: { PATH: '/usr/bin:/bin' } })
const files: number[] = []
try {
  for (;;) files.push(openSync(import.meta.filename, 'r'))
} catch {
  // All are in use.
}
const said = await box.exec(['true']).then(
  () => 'it ran',
  (error: unknown) => (isOsmosisError(error) ? `${error.code}: ${error.message}` : String(error)),
)
for (const file of files) closeSync(file)
console.log(said)
console.log(`with files again: ${(await box.exec(['true'])).exitCode}`)
await box.close()
console.log('closed')
