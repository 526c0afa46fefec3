import { text } from 'node:stream/consumers'

import { PlatformError, type JsonObject, type Page, type PlatformClient } from '@osmosis/platform'

import { askHidden } from './ask.ts'
import { readList } from './read-list.ts'
import type { PlatformSession } from './platform-session.ts'
import type { SecretDeleteFlags, SecretListFlags, SecretScope, SecretSetFlags } from './secret.ts'
import { standardInput } from '../command/surroundings.ts'

const route = ['environment-secrets']

/** How the platform calls whose a secret is. */
const wireScopes = { all: 'all', personal: 'user', workspace: 'workspace' } as const
/** Who loses a secret, or has it, in words. */
const owners = { personal: 'You have', workspace: 'The workspace has' } as const

export async function setSecret(
  session: PlatformSession,
  name: string,
  { scope, fromEnv }: SecretSetFlags,
): Promise<void> {
  checkName(name)
  const { client } = await session.scoped()
  const value = await readValue(session, name, fromEnv)
  session.output.hide(value)
  const body = { name, value, scope: wireScopes[scope] }
  const kept = await client.request(route, { method: 'POST', body })
  session.output.operation({
    status: 'success',
    operation: 'secret.set',
    resource: { ...withoutValue(kept), name, scope },
    message: `${owners[scope]} the secret ${name}.`,
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

export async function listSecrets(session: PlatformSession, flags: SecretListFlags): Promise<void> {
  const { client } = await session.scoped()
  const page = await readSecrets(client, flags)
  session.output.list({ ...page, items: page.items.map(withoutValue) }, [
    ['NAME', 'name'],
    ['SCOPE', 'scope'],
    ['UPDATED', 'updated_at'],
  ])
}

/** Reads names of secrets of this scope, and what else is known of them. */
export async function readSecrets(
  client: PlatformClient,
  { scope, ...flags }: SecretListFlags,
): Promise<Page> {
  const inScope: Pick<PlatformClient, 'request'> = {
    request: async (path, options) =>
      client.request(path, {
        ...options,
        query: { ...options?.query, scope: wireScopes[scope] },
      }),
  }
  return readList(inScope, route, 'environment_secrets', flags)
}

/** What is told of a secret: not its value, whatever the platform says. */
function withoutValue({ value: _value, scope, ...rest }: JsonObject): JsonObject {
  return { ...rest, scope: scope === wireScopes.personal ? 'personal' : scope }
}

export async function deleteSecret(
  session: PlatformSession,
  name: string,
  { scope, yes }: SecretDeleteFlags,
): Promise<void> {
  checkName(name)
  const { client } = await session.scoped()
  await checkIsThere(client, name, scope)
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
    message: agreed ? `${owners[scope]} no secret ${name} any more.` : `${name} was not deleted.`,
  })
}

/** Nobody is asked about a secret that is not there. Where that cannot be found out, the platform says it. */
async function checkIsThere(
  client: PlatformClient,
  name: string,
  scope: SecretScope,
): Promise<void> {
  const scopes = await scopesOf(client, name)
  if (scopes === undefined || scopes.includes(scope)) return
  const [other] = scopes
  const advice =
    other === undefined
      ? 'osmosis secret list names those that are there.'
      : `There is one of the scope ${other}: osmosis secret delete ${name} --scope ${other}`
  throw new PlatformError('NOT_FOUND', `There is no ${scope} secret ${name}. ${advice}`, {
    details: { name, scope },
  })
}

async function scopesOf(client: PlatformClient, name: string): Promise<SecretScope[] | undefined> {
  try {
    const { items } = await readSecrets(client, { scope: 'all', all: true })
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
  throw new PlatformError(
    'VALIDATION',
    `${JSON.stringify(name.slice(0, 300))} is not a valid name of a secret: it must begin with a capital letter, and have at most 255 capitals, digits and underscores.`,
  )
}
