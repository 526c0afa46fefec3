import { PlatformError, type PlatformClient } from '@osmosis/platform'

import { readSecretsFile } from '../../inputs/environment.ts'
import { askHidden } from '../ask.ts'
import type { PlatformSession } from '../platform-session.ts'
import { readSecrets } from '../secret-actions.ts'
import { isInteractive } from '../../command/surroundings.ts'

/** What a run is told about its secrets. */
export interface RunSecrets {
  readonly required: readonly string[]
  /** Values that are not stored on the platform. */
  readonly provided?: Readonly<Record<string, string>>
}

/**
 * Finds the values of the secrets that a run needs: in the file, in the environment, stored on the
 * platform, and from a person, in this order.
 *
 * @throws PlatformError with code `INTERACTIVE_REQUIRED` that names those without a value
 */
export async function findSecrets(
  session: PlatformSession,
  client: PlatformClient,
  required: readonly string[],
  secretsFile: string | undefined,
): Promise<RunSecrets | undefined> {
  const { output, settings, signal } = session
  if (required.length === 0) return undefined
  const stored = await storedNames(client)
  const file = secretsFile === undefined ? undefined : await readSecretsFile(secretsFile)
  output.hide(...(file?.values() ?? []))
  const provided: Record<string, string> = {}
  const missing: string[] = []
  for (const name of required) {
    const value = file?.get(name) ?? settings.environment[name]
    if (value) provided[name] = value
    else if (!stored.has(name)) missing.push(name)
  }
  output.hide(...Object.values(provided))
  if (missing.length > 0 && (output.json || !isInteractive())) {
    throw new PlatformError(
      'INTERACTIVE_REQUIRED',
      `There is no value for ${missing.join(', ')}: set them with osmosis secret set, in the environment, or with --secrets-file.`,
      { details: { missing, flags: ['--secrets-file'] } },
    )
  }
  for (const name of missing) {
    const value = await askHidden(`Value of ${name}:`, { output, signal })
    output.hide(value)
    provided[name] = value
  }
  return { required, ...(Object.keys(provided).length > 0 && { provided }) }
}

/** Names of secrets on the platform; when they cannot be listed, none are known to be there. */
async function storedNames(client: PlatformClient): Promise<ReadonlySet<unknown>> {
  try {
    const { items } = await readSecrets(client, { scope: 'all', all: true })
    return new Set(items.map(({ name }) => name))
  } catch (error) {
    if (error instanceof PlatformError) return new Set()
    throw error
  }
}
