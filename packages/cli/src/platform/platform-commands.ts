import type { Command } from 'commander'

import { addAuthCommands } from './auth-commands.ts'
import { addDatasetCommands } from './dataset-commands.ts'
import { addPlatformFlags, type ProgramSettings } from './platform-flags.ts'
import { addRunCommands } from './run-commands.ts'
import { addSecretCommands } from './secret-commands.ts'

/**
 * Adds the commands that speak to the hosted platform. Their common flags may stand before the
 * command as well.
 */
export function addPlatformCommands(program: Command, settings: ProgramSettings): void {
  addPlatformFlags(program.enablePositionalOptions())
  program.hook('preAction', (_program, command) => {
    const isAsked = ['json', 'platform', 'envFile', 'workspace'].some(
      (name) => program.getOptionValue(name) !== undefined,
    )
    if (!isAsked || command.options.some(({ long }) => long === '--platform')) return
    program.error(
      `error: --json, --platform, --env-file and --workspace are for commands that speak to the platform, which ${command.name()} does not`,
      { exitCode: 2 },
    )
  })
  addAuthCommands(program, settings)
  addDatasetCommands(program, settings)
  addSecretCommands(program, settings)
  addRunCommands(program, settings)
}
