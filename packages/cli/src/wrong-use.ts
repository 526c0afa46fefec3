import { isOsmosisError, type OsmosisErrorCode } from '@osmosis/core'
import { printError } from './surroundings.ts'

/** The exit code for flags, configs, entrypoints and datasets that cannot be. */
export const wrongUseCode = 2

const codes = new Set<OsmosisErrorCode>(['invalid_config', 'invalid_entrypoint', 'invalid_dataset'])

/** Resolves with the exit code of a command; input that cannot be is printed, and has one of its own. */
export async function orWrongUse(run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    if (!isOsmosisError(error) || !codes.has(error.code)) throw error
    printError(`error: ${error.message}\n`)
    return wrongUseCode
  }
}
