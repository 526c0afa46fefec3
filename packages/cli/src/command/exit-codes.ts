import { isOsmosisError, type OsmosisErrorCode } from '@osmosis/core'

/** The exit code for flags, configs, entrypoints and datasets that cannot be. */
export const wrongUseCode = 2

/** The exit code that shells expect of a program that Ctrl-C ended. */
export const interruptedExitCode = 130

const codes = new Set<OsmosisErrorCode>(['invalid_config', 'invalid_entrypoint', 'invalid_dataset'])

/** Whether an error is about what a command was called with. */
export function isWrongUse(error: unknown): boolean {
  // Errors about the platform have words of their own, which its client need not be loaded for.
  const { platformCode, status } = (error ?? {}) as { platformCode?: unknown; status?: unknown }
  if (platformCode !== undefined) return platformCode === 'VALIDATION' && status === undefined
  return isOsmosisError(error) ? codes.has(error.code) : isLongName(error)
}

/** A name that no file can have: it is not looked for everywhere before it is used. */
function isLongName(error: unknown): boolean {
  return (error as Partial<NodeJS.ErrnoException> | undefined)?.code === 'ENAMETOOLONG'
}
