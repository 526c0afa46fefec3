import { text } from 'node:stream/consumers'

import { hideKeys, isInteractive, standardInput } from '../../command/command-context.ts'
import { readSecretsFile } from '../../command/environment.ts'
import type { JsonObject, ListRange, Page } from '../client/answers.ts'
import type { PlatformClient } from '../client/platform-client.ts'
import { PlatformError, wrongUse } from '../client/platform-error.ts'
import type { PlatformSession } from '../session/platform-session.ts'

/** Owner of a secret: the user, or the workspace. */
export type SecretScope = 'personal' | 'workspace'

const route = ['environment-secrets']

/** Names of the scopes on the platform. */
const wireScopes = { all: 'all', personal: 'user', workspace: 'workspace' } as const

/** Stores a secret, with the value of a variable or else of the terminal or stdin. */
export async function setSecret(
  session: PlatformSession,
  name: string,
  scope: SecretScope,
  variable: string | undefined,
): Promise<void> {
  checkName(name)
  const { client } = await session.scoped()
  const value = await readValue(session, name, variable)
  hideKeys(value)
  const body = { name, value, scope: wireScopes[scope] }
  const stored = await client.request(route, { method: 'POST', body })
  session.output.operation({
    status: 'success',
    operation: 'secret.set',
    resource: { ...withoutValue(stored), name, scope },
    message: `Stored the ${scope} secret ${name}.`,
  })
}

async function readValue(
  session: PlatformSession,
  name: string,
  variable: string | undefined,
): Promise<string> {
  let value = ''
  if (variable !== undefined) value = session.settings.environment[variable] ?? ''
  else if (standardInput().isTTY) value = await session.askHidden(`Value of ${name}:`)
  // `echo` adds the line break at the end.
  else value = (await text(standardInput())).replace(/\r?\n$/, '')
  if (value !== '') return value
  throw emptySecret(variable === undefined ? 'The given value' : `The variable ${variable}`)
}

function emptySecret(what: string): PlatformError {
  return wrongUse(`${what} is empty: a secret needs a value.`)
}

/** Prints the names of secrets. */
export async function listSecrets(
  session: PlatformSession,
  scope: SecretScope | 'all',
  range: ListRange,
): Promise<void> {
  const { client } = await session.scoped()
  const page = await readSecrets(client, scope, range)
  session.output.list({ ...page, items: page.items.map(withoutValue) }, [
    ['NAME', 'name'],
    ['SCOPE', 'scope'],
    ['UPDATED', 'updated_at'],
  ])
}

/** Lists the secrets of a scope. */
async function readSecrets(
  client: PlatformClient,
  scope: SecretScope | 'all',
  range: ListRange,
): Promise<Page> {
  return client.list(route, 'environment_secrets', range, { scope: wireScopes[scope] })
}

/** The record of a secret, without its value if the platform sends it. */
function withoutValue({ value: _value, scope, ...rest }: JsonObject): JsonObject {
  return { ...rest, scope: scope === wireScopes.personal ? 'personal' : scope }
}

/** Deletes a secret that exists. */
export async function deleteSecret(
  session: PlatformSession,
  name: string,
  scope: SecretScope,
  yes: boolean | undefined,
): Promise<void> {
  checkName(name)
  const { client } = await session.scoped()
  await assertExists(client, name, scope)
  const whose = scope === 'personal' ? 'your' : "the workspace's"
  const agreed = await session.confirm(
    { prompt: `Delete ${whose} ${name}?`, summary: `Runs lose ${whose} ${name}.` },
    yes,
  )
  if (agreed) {
    await client.request(route, { method: 'DELETE', body: { name, scope: wireScopes[scope] } })
  }
  session.output.operation({
    status: agreed ? 'success' : 'cancelled',
    operation: 'secret.delete',
    resource: { name, scope },
    message: agreed ? `Deleted the ${scope} secret ${name}.` : `${name} was not deleted.`,
  })
}

/** Rejects before the question for a missing secret. If the list is unavailable, the platform reports it. */
async function assertExists(
  client: PlatformClient,
  name: string,
  scope: SecretScope,
): Promise<void> {
  const scopes = await scopesOf(client, name)
  if (scopes === undefined || scopes.includes(scope)) return
  const [other] = scopes
  const advice =
    other === undefined
      ? 'List the existing secrets with osmosis platform secret list.'
      : `It exists in the scope ${other}: osmosis platform secret delete ${name} --scope ${other}`
  throw new PlatformError('NOT_FOUND', `The ${scope} secret ${name} does not exist. ${advice}`, {
    details: { name, scope },
  })
}

async function scopesOf(client: PlatformClient, name: string): Promise<SecretScope[] | undefined> {
  try {
    const { items } = await readSecrets(client, 'all', { all: true })
    return items
      .filter((item) => item['name'] === name)
      .map((item) => (item['scope'] === wireScopes.personal ? 'personal' : 'workspace'))
  } catch (error) {
    if (error instanceof PlatformError && error.platformCode !== 'AUTH_REQUIRED') return undefined
    throw error
  }
}

function checkName(name: string): void {
  if (/^[A-Z][A-Z0-9_]{0,254}$/.test(name)) return
  throw wrongUse(
    `${JSON.stringify(name.slice(0, 300))} is not a valid name of a secret: it must start with a capital letter, and have at most 255 capital letters, digits and underscores.`,
  )
}

/**
 * Finds the values of the secrets that a run needs: in the file, in the environment, on the platform, and
 * by asking the user, in this order. `provided` are values for this run only.
 *
 * @throws PlatformError with code `INTERACTIVE_REQUIRED` that names those without a value, `VALIDATION` for an empty answer
 */
export async function findSecrets(
  session: PlatformSession,
  client: PlatformClient,
  required: readonly string[],
  secretsFile: string | undefined,
): Promise<
  { required: readonly string[]; provided?: Readonly<Record<string, string>> } | undefined
> {
  const { output, settings } = session
  if (required.length === 0) return undefined
  const stored = await storedNames(client)
  const file = secretsFile === undefined ? undefined : await readSecretsFile(secretsFile)
  hideKeys(...(file?.values() ?? []))
  const provided: Record<string, string> = {}
  const missing: string[] = []
  for (const name of required) {
    const value = file?.get(name) ?? settings.environment[name]
    if (value) provided[name] = value
    else if (!stored.has(name)) missing.push(name)
  }
  hideKeys(...Object.values(provided))
  if (missing.length > 0 && (output.json || !isInteractive())) {
    throw new PlatformError(
      'INTERACTIVE_REQUIRED',
      `Secrets without a value: ${missing.join(', ')}. Set them with osmosis platform secret set, in the environment, or with --secrets-file.`,
      { details: { missing, flags: ['--secrets-file'] } },
    )
  }
  for (const name of missing) {
    const value = await session.askHidden(`Value of ${name}:`)
    if (value === '') throw emptySecret(`The value of ${name}`)
    provided[name] = value
  }
  return { required, ...(Object.keys(provided).length > 0 && { provided }) }
}

/** Names of secrets on the platform; empty when they cannot be listed. */
async function storedNames(client: PlatformClient): Promise<ReadonlySet<unknown>> {
  try {
    const { items } = await readSecrets(client, 'all', { all: true })
    return new Set(items.map(({ name }) => name))
  } catch (error) {
    if (error instanceof PlatformError) return new Set()
    throw error
  }
}
