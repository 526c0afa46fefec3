import { createRequire } from 'node:module'

import { OsmosisError } from '@osmosis/core'
import * as sdk from 'ai'

/**
 * From the SDK, and the check that it is one that has it. No file of this package imports by name
 * what older versions lack: that would fail before the check, as a syntax error that names neither
 * the version nor the remedy. Bundlers keep all of a namespace that is used as a value, so it is only
 * read by names.
 *
 * @throws OsmosisError with code `invalid_config` when the installed version is not supported
 */
export const registerTelemetry: typeof sdk.registerTelemetry = supported(sdk.registerTelemetry)

function supported<T>(exported: T | undefined): T {
  if (exported !== undefined) return exported
  const { version } = createRequire(import.meta.url)('ai/package.json') as { version: string }
  throw new OsmosisError(
    'invalid_config',
    `@osmosis/ai-sdk needs version 7 of the AI SDK, and ai ${version} is installed. Install it: npm install ai@7`,
  )
}
