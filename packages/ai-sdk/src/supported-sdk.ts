import { createRequire } from 'node:module'

import { OsmosisError } from '@osmosis/core'
import * as sdk from 'ai'

/**
 * From the SDK, and the check that it is one that has it. No file of this package imports by name
 * what older versions lack: that would fail before the check, as a syntax error that names neither
 * the version nor the remedy.
 *
 * @throws OsmosisError with code `invalid_config` when the installed version is not supported
 */
export const { registerTelemetry } = supportedSdk()

function supportedSdk(): typeof sdk {
  if ('registerTelemetry' in sdk) return sdk
  const { version } = createRequire(import.meta.url)('ai/package.json') as { version: string }
  throw new OsmosisError(
    'invalid_config',
    `@osmosis/ai-sdk needs version 7 of the AI SDK, and ai ${version} is installed. Install it: npm install ai@7`,
  )
}
