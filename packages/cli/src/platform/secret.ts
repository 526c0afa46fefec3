import { InvalidArgumentError, Option, type Command } from 'commander'

import { addPythonName } from '../command/flags.ts'
import {
  addListFlags,
  type ListFlags,
  addPlatformCommand,
  type PlatformFlags,
  type ProgramSettings,
} from './platform-flags.ts'

/** Whose a secret is: that of the user alone, or of everybody in the workspace. */
export type SecretScope = 'personal' | 'workspace'

/** Flags of `secret set` and `secret delete`. */
export interface SecretFlags extends PlatformFlags {
  scope: SecretScope
  fromEnv?: string
  yes?: boolean
}

/** Flags of `secret list`. */
export interface SecretListFlags extends ListFlags {
  scope: SecretScope | 'all'
}

/** Adds `secret` with its commands. */
export function addSecretCommands(program: Command, settings: ProgramSettings): void {
  const secrets = program.command('secret').description('secrets that runs on the platform get')
  const set = addPlatformCommand(secrets, 'set', settings, {
    run: async (session, flags: SecretFlags, [name = '']) =>
      (await import('./secret-actions.ts')).setSecret(session, name, flags),
  })
    .description('keep a secret; its value is asked for, or read from stdin')
    .argument('<name>', 'in capitals, digits and underscores')
    .option('--from-env <variable>', 'take the value of this variable')
    .addOption(scopeOf(['personal', 'workspace']))
  addPythonName(set, '--env <variable>', '--from-env')
  addListFlags(
    addPlatformCommand(secrets, 'list', settings, {
      run: async (session, flags: SecretListFlags) =>
        (await import('./secret-actions.ts')).listSecrets(session, flags),
    }).description('list the names of secrets'),
  ).addOption(scopeOf(['all', 'personal', 'workspace']))
  addPlatformCommand(secrets, 'delete', settings, {
    run: async (session, flags: SecretFlags, [name = '']) =>
      (await import('./secret-actions.ts')).deleteSecret(session, name, flags),
  })
    .description('forget a secret')
    .argument('<name>', 'its name')
    .option('-y, --yes', 'do not ask')
    .addOption(scopeOf(['personal', 'workspace']))
}

/** Whose secrets are meant, by default the first of these; `user` is what the platform calls `personal`. */
function scopeOf(known: readonly [string, ...string[]]): Option {
  return new Option('--scope <scope>', `whose: ${known.join(', ')}`)
    .default(known[0])
    .argParser((value) => {
      const scope = value === 'user' ? 'personal' : value
      if (known.includes(scope)) return scope
      throw new InvalidArgumentError(`It must be one of ${known.join(', ')}.`)
    })
}
