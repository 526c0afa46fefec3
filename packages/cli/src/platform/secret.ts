import { text } from 'node:stream/consumers'

import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'
import type { JsonObject, Page, PlatformClient } from '@osmosis/platform'

import { addPythonName, example, groups, type FlagsOf } from '../command/flags.ts'
import { standardInput } from '../command/command-context.ts'
import {
  addListFlags,
  onPlatform,
  platformCommand,
  type ListFlags,
  type ProgramSettings,
} from './platform-flags.ts'
import type { PlatformSession } from './platform-session.ts'

/** Owner of a secret: the user, or the workspace. */
type SecretScope = 'personal' | 'workspace'

function declareSet(secrets: Command) {
  const command = platformCommand(secrets, 'set')
    .description('store a secret; its value is read from the terminal or from stdin')
    .argument('<name>', 'name of capitals, digits and underscores')
    .optionsGroup(groups.inputs)
    .option('--from-env <variable>', 'use the value of this environment variable')
    .addOption(scopeFlag<SecretScope>(['personal', 'workspace']))
    .addHelpText('after', example('osmosis platform secret set SHOP_TOKEN --from-env SHOP_TOKEN'))
  addPythonName(command, '--env <variable>', '--from-env')
  return command
}

function declareDelete(secrets: Command) {
  return platformCommand(secrets, 'delete')
    .description('delete a secret')
    .argument('<name>', 'its name')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .optionsGroup(groups.inputs)
    .addOption(scopeFlag<SecretScope>(['personal', 'workspace']))
    .addHelpText('after', example('osmosis platform secret delete SHOP_TOKEN'))
}

/** Flags of `secret list`. */
type SecretListFlags = ListFlags & { scope: SecretScope | 'all' }

/** Adds `secret` with its commands. */
export function addSecretCommands(secrets: Command, settings: ProgramSettings): void {
  onPlatform(declareSet(secrets), settings, setSecret)
  const list = addListFlags(
    platformCommand(secrets, 'list')
      .description('list the names of secrets')
      .addHelpText('after', example('osmosis platform secret list --scope workspace')),
  ).addOption(scopeFlag<SecretScope | 'all'>(['all', 'personal', 'workspace']))
  onPlatform(list, settings, listSecrets)
  onPlatform(declareDelete(secrets), settings, deleteSecret)
}

/** The owner, by default the first of these; `user` is accepted for `personal`. */
function scopeFlag<Scope extends string>(known: readonly [Scope, ...Scope[]]) {
  return new Option('--scope <scope>', `owner: ${known.join(', ')}`)
    .default(known[0])
    .argParser((value): Scope => {
      const scope = known.find((one) => one === (value === 'user' ? 'personal' : value))
      if (scope !== undefined) return scope
      throw new InvalidArgumentError(`It must be one of ${known.join(', ')}.`)
    })
}

const route = ['environment-secrets']

/** Names of the scopes on the platform. */
const wireScopes = { all: 'all', personal: 'user', workspace: 'workspace' } as const

async function setSecret(
  session: PlatformSession,
  { scope, fromEnv }: FlagsOf<typeof declareSet>,
  name: string,
): Promise<void> {
  await checkName(name)
  const { client } = await session.scoped()
  const value = await readValue(session, name, fromEnv)
  session.output.hide(value)
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
  const { PlatformError } = await import('@osmosis/platform')
  const where = variable === undefined ? 'The given value' : `The variable ${variable}`
  throw new PlatformError('VALIDATION', `${where} is empty: a secret needs a value.`)
}

async function listSecrets(session: PlatformSession, flags: SecretListFlags): Promise<void> {
  const { client } = await session.scoped()
  const page = await readSecrets(session, client, flags)
  session.output.list({ ...page, items: page.items.map(withoutValue) }, [
    ['NAME', 'name'],
    ['SCOPE', 'scope'],
    ['UPDATED', 'updated_at'],
  ])
}

/** Lists the secrets of a scope. */
export async function readSecrets(
  session: PlatformSession,
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
  return session.readList(inScope, route, 'environment_secrets', flags)
}

/** The record of a secret, without its value if the platform sends it. */
function withoutValue({ value: _value, scope, ...rest }: JsonObject): JsonObject {
  return { ...rest, scope: scope === wireScopes.personal ? 'personal' : scope }
}

async function deleteSecret(
  session: PlatformSession,
  { scope, yes }: FlagsOf<typeof declareDelete>,
  name: string,
): Promise<void> {
  await checkName(name)
  const { client } = await session.scoped()
  await assertExists(session, client, { name, scope })
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
  session: PlatformSession,
  client: PlatformClient,
  { name, scope }: { name: string; scope: SecretScope },
): Promise<void> {
  const scopes = await scopesOf(session, client, name)
  if (scopes === undefined || scopes.includes(scope)) return
  const { PlatformError } = await import('@osmosis/platform')
  const [other] = scopes
  const advice =
    other === undefined
      ? 'List the existing secrets with osmosis platform secret list.'
      : `It exists in the scope ${other}: osmosis platform secret delete ${name} --scope ${other}`
  throw new PlatformError('NOT_FOUND', `The ${scope} secret ${name} does not exist. ${advice}`, {
    details: { name, scope },
  })
}

async function scopesOf(
  session: PlatformSession,
  client: PlatformClient,
  name: string,
): Promise<SecretScope[] | undefined> {
  try {
    const { items } = await readSecrets(session, client, { scope: 'all', all: true })
    return items
      .filter((item) => item['name'] === name)
      .map((item) => (item['scope'] === wireScopes.personal ? 'personal' : 'workspace'))
  } catch (error) {
    const { PlatformError } = await import('@osmosis/platform')
    if (error instanceof PlatformError && error.platformCode !== 'AUTH_REQUIRED') return undefined
    throw error
  }
}

async function checkName(name: string): Promise<void> {
  if (/^[A-Z][A-Z0-9_]{0,254}$/.test(name)) return
  const { PlatformError } = await import('@osmosis/platform')
  throw new PlatformError(
    'VALIDATION',
    `${JSON.stringify(name.slice(0, 300))} is not a valid name of a secret: it must start with a capital letter, and have at most 255 capital letters, digits and underscores.`,
  )
}
