import { isOsmosisError, type OsmosisErrorCode } from '@osmosis/core'

/** Code and message of the OsmosisError that `run` throws; anything else is rethrown. */
export async function osmosisErrorOf(
  run: () => unknown,
): Promise<{ code: OsmosisErrorCode; message: string }> {
  try {
    await run()
  } catch (error) {
    if (isOsmosisError(error)) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('Expected an OsmosisError, but nothing was thrown.')
}
