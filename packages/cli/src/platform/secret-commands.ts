import { Option, type Command } from 'commander'

import { addListFlags, type ListFlags } from './list-flags.ts'
import { addPlatformCommand, type PlatformFlags, type ProgramSettings } from './platform-flags.ts'

/** Flags of `secret set` and `secret delete`. */
export interface SecretFlags extends PlatformFlags {
  scope: string
  fromEnv?: string
  yes?: boolean
}

/** Adds `secret` with its commands. */
export function addSecretCommands(program: Command, settings: ProgramSettings): void {
  const secrets = program.command('secret').description('secrets that runs on the platform get')
  addPlatformCommand(secrets, 'set', settings, {
    run: async (session, flags: SecretFlags, [name = '']) =>
      (await import('./secret-work.ts')).setSecret(session, name, flags),
  })
    .description('keep a secret; its value is asked for, or read from stdin')
    .argument('<name>', 'in capitals, digits and underscores')
    .option('--from-env <variable>', 'take the value of this variable')
    .addOption(scope())
  addListFlags(
    addPlatformCommand(secrets, 'list', settings, {
      run: async (session, flags: ListFlags) =>
        (await import('./secret-work.ts')).listSecrets(session, flags),
    }).description('list the names of secrets'),
  )
  addPlatformCommand(secrets, 'delete', settings, {
    run: async (session, flags: SecretFlags, [name = '']) =>
      (await import('./secret-work.ts')).deleteSecret(session, name, flags),
  })
    .description('forget a secret')
    .argument('<name>', 'its name')
    .option('-y, --yes', 'do not ask')
    .addOption(scope())
}

/** Whose secret it is. */
function scope(): Option {
  return new Option('--scope <scope>', 'whose it is')
    .choices(['workspace', 'user'])
    .default('workspace')
}
