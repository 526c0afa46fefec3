import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'

import { addPythonName, example, groups, type FlagsOf } from '../command/flags.ts'
import {
  addListFlags,
  onPlatform,
  platformCommand,
  type ListFlags,
  type ProgramSettings,
} from './platform-flags.ts'

/** Whose a secret is: that of the user alone, or of everybody in the workspace. */
export type SecretScope = 'personal' | 'workspace'

function declareSet(secrets: Command) {
  const command = platformCommand(secrets, 'set')
    .description('store a secret; its value is read from the terminal or from stdin')
    .argument('<name>', 'name of capitals, digits and underscores')
    .optionsGroup(groups.inputs)
    .option('--from-env <variable>', 'use the value of this environment variable')
    .addOption(scopeFlag<SecretScope>(['personal', 'workspace']))
    .addHelpText('after', example('osmosis secret set SHOP_TOKEN --from-env SHOP_TOKEN'))
  addPythonName(command, '--env <variable>', '--from-env')
  return command
}

/** Flags of `secret set`. */
export type SecretSetFlags = FlagsOf<typeof declareSet>

function declareDelete(secrets: Command) {
  return platformCommand(secrets, 'delete')
    .description('delete a secret')
    .argument('<name>', 'its name')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .optionsGroup(groups.inputs)
    .addOption(scopeFlag<SecretScope>(['personal', 'workspace']))
    .addHelpText('after', example('osmosis secret delete SHOP_TOKEN'))
}

/** Flags of `secret delete`. */
export type SecretDeleteFlags = FlagsOf<typeof declareDelete>

/** Flags of `secret list`. */
export type SecretListFlags = ListFlags & { scope: SecretScope | 'all' }

/** Adds `secret` with its commands. */
export function addSecretCommands(program: Command, settings: ProgramSettings): void {
  const secrets = program.command('secret').description('secrets of runs on the platform')
  onPlatform(declareSet(secrets), settings, async (session, flags, name) =>
    (await import('./secret-actions.ts')).setSecret(session, name, flags),
  )
  const list = addListFlags(
    platformCommand(secrets, 'list')
      .description('list the names of secrets')
      .addHelpText('after', example('osmosis secret list --scope workspace')),
  ).addOption(scopeFlag<SecretScope | 'all'>(['all', 'personal', 'workspace']))
  onPlatform(list, settings, async (session, flags) =>
    (await import('./secret-actions.ts')).listSecrets(session, flags),
  )
  onPlatform(declareDelete(secrets), settings, async (session, flags, name) =>
    (await import('./secret-actions.ts')).deleteSecret(session, name, flags),
  )
}

/** Whose secrets are meant, by default the first of these; `user` is what the platform calls `personal`. */
function scopeFlag<Scope extends string>(known: readonly [Scope, ...Scope[]]) {
  return new Option('--scope <scope>', `owner: ${known.join(', ')}`)
    .default(known[0])
    .argParser((value): Scope => {
      const scope = known.find((one) => one === (value === 'user' ? 'personal' : value))
      if (scope !== undefined) return scope
      throw new InvalidArgumentError(`It must be one of ${known.join(', ')}.`)
    })
}
