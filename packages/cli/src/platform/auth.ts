import type { Command } from '@commander-js/extra-typings'

import { example, groups, type FlagsOf } from '../command/flags.ts'
import { onPlatform, platformCommand, type ProgramSettings } from './platform-flags.ts'

function declareLogin(auth: Command) {
  return platformCommand(auth, 'login')
    .description('log in with a browser, or with a token')
    .optionsGroup(groups.access)
    .option('--token <token>', 'a login token of the platform')
    .addHelpText('after', example('osmosis auth login'))
}

/** Flags of `auth login`. */
export type LoginFlags = FlagsOf<typeof declareLogin>

function declareLogout(auth: Command) {
  return platformCommand(auth, 'logout')
    .description('log out and revoke the token')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis auth logout --yes'))
}

/** Flags of `auth logout`. */
export type LogoutFlags = FlagsOf<typeof declareLogout>

/** Adds `auth login`, `auth logout` and `auth whoami`. */
export function addAuthCommands(program: Command, settings: ProgramSettings): void {
  const auth = program.command('auth').description('log in to the platform')
  onPlatform(declareLogin(auth), settings, async (session, flags) => {
    const { loginCommand } = await import('./login.ts')
    await loginCommand(session, flags)
  })
  onPlatform(declareLogout(auth), settings, async (session, flags) => {
    const { logoutCommand } = await import('./login.ts')
    await logoutCommand(session, flags)
  })
  const whoami = platformCommand(auth, 'whoami')
    .description('show who is logged in')
    .addHelpText('after', example('osmosis auth whoami'))
  onPlatform(whoami, settings, async (session) => {
    const { whoamiCommand } = await import('./login.ts')
    await whoamiCommand(session)
  })
}
