import { text } from 'node:stream/consumers'

import { PlatformError, type JsonObject, type Page, type PlatformClient } from '@osmosis/platform'

import { askHidden } from './ask.ts'
import type { ListFlags } from './list-flags.ts'
import { readList } from './read-list.ts'
import type { PlatformSession } from './platform-session.ts'
import type { SecretFlags } from './secret-commands.ts'
import { standardInput } from '../surroundings.ts'

const route = ['environment-secrets']

export async function setSecret(
  session: PlatformSession,
  name: string,
  { scope, fromEnv }: SecretFlags,
): Promise<void> {
  checkName(name)
  const { client } = await session.scoped()
  const value = await readValue(session, name, fromEnv)
  session.output.hide(value)
  await client.request(route, { method: 'POST', body: { name, value, scope } })
  session.output.operation({
    status: 'success',
    operation: 'secret.set',
    resource: { name, scope },
    message: `The ${scope} has the secret ${name}.`,
  })
}

async function readValue(
  session: PlatformSession,
  name: string,
  variable: string | undefined,
): Promise<string> {
  const value = await givenValue(session, name, variable)
  if (value !== '') return value
  const where = variable === undefined ? 'The value that was given' : `The variable ${variable}`
  throw new PlatformError('VALIDATION', `${where} is empty: a secret has a value.`)
}

async function givenValue(
  { settings, output, signal }: PlatformSession,
  name: string,
  variable: string | undefined,
): Promise<string> {
  if (variable !== undefined) return settings.environment[variable] ?? ''
  // The line break behind it is that of `echo`.
  if (!standardInput().isTTY) return (await text(standardInput())).replace(/\r?\n$/, '')
  return askHidden(`Value of ${name}:`, { output, signal })
}

export async function listSecrets(session: PlatformSession, flags: ListFlags): Promise<void> {
  const { client } = await session.scoped()
  const page = await readList(secretLists(client), route, 'secrets', flags)
  session.output.list(withoutValues(page), [
    ['NAME', 'name'],
    ['SCOPE', 'scope'],
    ['UPDATED', 'updated_at'],
  ])
}

/**
 * Asks for secrets of the workspace and of the user. Where an answer has them is not documented, so
 * every name that other lists would suggest is looked at.
 */
export function secretLists(client: PlatformClient): Pick<PlatformClient, 'request'> {
  return {
    async request(path, options) {
      const query = { ...options?.query, scope: 'all' }
      const answer = await client.request(path, { ...options, query })
      const { environment_secrets: named, secrets, items } = answer
      return { ...answer, secrets: named ?? secrets ?? items }
    },
  }
}

/** Whatever the platform says of a secret, its value is not printed. */
function withoutValues(page: Page): Page {
  const items = page.items.map(({ value: _value, ...rest }: JsonObject) => rest)
  return { ...page, items }
}

export async function deleteSecret(
  session: PlatformSession,
  name: string,
  { scope, yes }: SecretFlags,
): Promise<void> {
  checkName(name)
  const { client } = await session.scoped()
  const agreed = await session.confirm(
    { prompt: `Delete ${name}?`, summary: `Runs that need the ${scope}'s ${name} will not start.` },
    yes,
  )
  if (agreed) await client.request(route, { method: 'DELETE', body: { name, scope } })
  session.output.operation({
    status: agreed ? 'success' : 'cancelled',
    operation: 'secret.delete',
    resource: { name, scope },
    message: agreed ? `The ${scope} has no secret ${name} any more.` : `${name} was kept.`,
  })
}

function checkName(name: string): void {
  if (/^[A-Z_][A-Z0-9_]*$/.test(name) && !name.startsWith('_OSMOSIS_')) return
  throw new PlatformError(
    'VALIDATION',
    `${JSON.stringify(name)} is no name of a secret: it has capitals, digits and underscores, and does not begin with _OSMOSIS_.`,
  )
}
