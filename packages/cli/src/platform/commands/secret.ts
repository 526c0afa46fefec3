import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'

import { addPythonName, example, groups } from '../../command/flags.ts'
import type { SecretScope } from '../actions/secrets.ts'
import {
  addListFlags,
  onPlatform,
  platformCommand,
  type ProgramSettings,
} from './platform-flags.ts'

const loadActions = async () => import('../actions/secrets.ts')

/** Adds `set`, `list` and `delete`. */
export function addSecretCommands(secrets: Command, settings: ProgramSettings): void {
  const set = platformCommand(secrets, 'set')
    .description('store a secret; its value is read from the terminal or from stdin')
    .argument('<name>', 'name of capitals, digits and underscores')
    .optionsGroup(groups.inputs)
    .option('--from-env <variable>', 'use the value of this environment variable')
    .addOption(scopeFlag<SecretScope>(['personal', 'workspace']))
    .addHelpText('after', example('osmosis platform secret set SHOP_TOKEN --from-env SHOP_TOKEN'))
  addPythonName(set, '--env <variable>', '--from-env')
  onPlatform(set, settings, async (session, { scope, fromEnv }, name) =>
    (await loadActions()).setSecret(session, name, scope, fromEnv),
  )
  const list = addListFlags(
    platformCommand(secrets, 'list')
      .description('list the names of secrets')
      .addHelpText('after', example('osmosis platform secret list --scope workspace')),
  ).addOption(scopeFlag<SecretScope | 'all'>(['all', 'personal', 'workspace']))
  onPlatform(list, settings, async (session, { scope, ...range }) =>
    (await loadActions()).listSecrets(session, scope, range),
  )
  const remove = platformCommand(secrets, 'delete')
    .description('delete a secret')
    .argument('<name>', 'name of the secret')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .optionsGroup(groups.inputs)
    .addOption(scopeFlag<SecretScope>(['personal', 'workspace']))
    .addHelpText('after', example('osmosis platform secret delete SHOP_TOKEN'))
  onPlatform(remove, settings, async (session, { scope, yes }, name) =>
    (await loadActions()).deleteSecret(session, name, scope, yes),
  )
}

/** The owner, by default the first of these; `user` is accepted for `personal`. */
function scopeFlag<Scope extends string>(known: readonly [Scope, ...Scope[]]) {
  return new Option('--scope <scope>', `who owns the secrets: ${known.join(', ')}`)
    .default(known[0])
    .argParser((value): Scope => {
      const scope = known.find((one) => one === (value === 'user' ? 'personal' : value))
      if (scope !== undefined) return scope
      throw new InvalidArgumentError(`It must be one of ${known.join(', ')}.`)
    })
}
