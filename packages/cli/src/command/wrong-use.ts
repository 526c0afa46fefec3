import { isOsmosisError, OsmosisError, type OsmosisErrorCode } from '@osmosis/core'

/** The error of a command for arguments, configs and names that it cannot use. */
export function invalid(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('invalid_config', message, cause === undefined ? {} : { cause })
}

/** @throws OsmosisError with code `invalid_config` that says what is wrong with the first given flag */
export function refuseOneOf(
  flags: Readonly<Record<string, unknown>>,
  sentence: (flag: string) => string,
): void {
  const [given] = Object.entries(flags).filter(([, value]) => value !== undefined)
  if (given !== undefined) throw invalid(sentence(given[0]))
}

/** The error of a command for a module of the user that cannot be loaded or lacks an export. */
export function invalidEntrypoint(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('invalid_entrypoint', message, cause === undefined ? {} : { cause })
}

const codes = new Set<OsmosisErrorCode>(['invalid_config', 'invalid_entrypoint', 'invalid_dataset'])

/** Whether an error is about the arguments of a command. */
export function isWrongUse(error: unknown): boolean {
  // Recognised by their fields, so that the client of the platform is not loaded for this.
  const { platformCode, status } = (error ?? {}) as { platformCode?: unknown; status?: unknown }
  if (platformCode !== undefined) return platformCode === 'VALIDATION' && status === undefined
  if (isOsmosisError(error)) return codes.has(error.code)
  // Not every file name is checked before it is used.
  return (error as Partial<NodeJS.ErrnoException> | undefined)?.code === 'ENAMETOOLONG'
}
