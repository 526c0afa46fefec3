import type { Command } from 'commander'

import { addPlatformCommand, type PlatformFlags, type ProgramSettings } from './platform-flags.ts'

/** Flags of `auth login`. */
export interface LoginFlags extends PlatformFlags {
  token?: string
}

/** Flags of commands that ask first. */
export interface ConfirmedFlags extends PlatformFlags {
  yes?: boolean
}

/** Adds `auth login`, `auth logout` and `auth whoami`. */
export function addAuthCommands(program: Command, settings: ProgramSettings): void {
  const auth = program.command('auth').description('log in to the platform')
  addPlatformCommand(auth, 'login', settings, {
    async run(session, flags: LoginFlags) {
      const { loginCommand } = await import('./login.ts')
      await loginCommand(session, flags)
    },
  })
    .description('log in with a browser, or with a token')
    .option('--token <token>', 'a login token of the platform')
  addPlatformCommand(auth, 'logout', settings, {
    async run(session, flags: ConfirmedFlags) {
      const { logoutCommand } = await import('./login.ts')
      await logoutCommand(session, flags)
    },
  })
    .description('make the login worthless and forget it')
    .option('-y, --yes', 'do not ask')
  addPlatformCommand(auth, 'whoami', settings, {
    async run(session) {
      const { whoamiCommand } = await import('./login.ts')
      await whoamiCommand(session)
    },
  }).description('ask the platform who is logged in')
}
