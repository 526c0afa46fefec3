import { tmpdir } from 'node:os'

import { isOsmosisError } from '@osmosis/core'
import { LocalSandbox } from '@osmosis/core/sandbox'

import { takeAllFiles } from '../../../../test/kit/starved/taken-files.ts'

// A process that runs commands while it has no free file descriptor, and afterwards.
const box = new LocalSandbox({ folder: tmpdir(), env: { PATH: '/usr/bin:/bin' } })
const giveBack = takeAllFiles()
const said = await box.exec(['true']).then(
  () => 'it ran',
  (error: unknown) => (isOsmosisError(error) ? `${error.code}: ${error.message}` : String(error)),
)
giveBack()
console.log(said)
console.log(`with files again: ${(await box.exec(['true'])).exitCode}`)
await box.close()
console.log('closed')
