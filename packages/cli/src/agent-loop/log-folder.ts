import { access, constants, mkdir } from 'node:fs/promises'

import { errorMessage, OsmosisError } from '@osmosis/core'

/**
 * Makes the folder for traces. A trace that cannot be written fails no rollout, so nobody would hear
 * of it later.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function assertLogFolder(folder: string | undefined): Promise<void> {
  if (folder === undefined) return
  // What an unset variable of a shell leaves.
  if (folder === '') {
    throw new OsmosisError('invalid_config', '--log must name a folder, e.g. traces; it is empty.')
  }
  try {
    await mkdir(folder, { recursive: true })
    await access(folder, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new OsmosisError(
      'invalid_config',
      `--log cannot be written to ${folder}: ${errorMessage(error)}`,
      { cause: error },
    )
  }
}
