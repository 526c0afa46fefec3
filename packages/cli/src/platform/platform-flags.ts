import { CommanderError, Option, type Command } from 'commander'

import { countFrom } from '../command/flags.ts'
import type { PlatformSession } from './platform-session.ts'

/** What every command that speaks to the platform takes, behind `osmosis` as well. */
export interface PlatformFlags {
  json?: boolean
  platform?: string
  envFile?: string
  workspace?: string
}

/** What the commands need of the program they belong to. */
export interface ProgramSettings {
  readonly version: string
  readonly setExitCode: (code: number) => void
}

/** Adds the flags that commands of the platform have in common. */
export function addPlatformFlags(command: Command): Command {
  return (
    command
      .option('--json', 'print JSON for programs')
      // What the Python command line calls text without decoration, which there is no other of here.
      .addOption(new Option('--plain').hideHelp())
      .option('--platform <url>', 'the platform (default: $OSMOSIS_PLATFORM_URL, the hosted one)')
      .option('--env-file <file>', 'variables in place of the nearest .env ($OSMOSIS_ENV_FILE)')
      .option('--workspace <name>', 'a workspace by its name, in place of that of the git origin')
  )
}

/** What a usage error of these commands ends with. */
const usageExitCode = 2

/** What a command does; a method, so that each may name the flags it has. */
interface CommandWork {
  /** Resolves with the exit code, if it is not 0. */
  run(
    session: PlatformSession,
    flags: PlatformFlags,
    args: readonly (string | undefined)[],
  ): Promise<number | void>
}

/** Adds a command that speaks to the platform. */
export function addPlatformCommand(
  parent: Command,
  words: string,
  settings: ProgramSettings,
  work: CommandWork,
): Command {
  const command = addPlatformFlags(parent.command(words)).exitOverride((error) => {
    throw new CommanderError(error.exitCode && usageExitCode, error.code, error.message)
  })
  return command.action(async () => {
    const { runPlatformCommand } = await import('./platform-session.ts')
    const flags = command.optsWithGlobals<PlatformFlags>()
    const name = `${parent.name()} ${command.name()}`
    settings.setExitCode(
      await runPlatformCommand({ name, version: settings.version, flags }, (session) =>
        work.run(session, flags, command.processedArgs as (string | undefined)[]),
      ),
    )
  })
}

/** Flags of lists. */
export interface ListFlags extends PlatformFlags {
  limit?: number
  offset?: number
  all?: boolean
}

/** Adds them. */
export function addListFlags(command: Command): Command {
  return command
    .option('--limit <items>', 'at most so many, up to 50 (default: 50)', countFrom(1, 50))
    .option('--offset <items>', 'leave out so many first', countFrom(0))
    .addOption(new Option('--all', 'every page').conflicts('limit'))
}

/** Flags of `logs`. */
export interface LogFlags extends PlatformFlags {
  limit?: number
  direction?: string
  cursor?: string
}

/** Adds them. */
export function addLogFlags(command: Command): Command {
  return command
    .option('--limit <lines>', 'at most so many, up to 200 (default: 50)', countFrom(1, 200))
    .addOption(
      new Option('--direction <direction>', 'where the cursor leads (default: older)').choices([
        'older',
        'newer',
      ]),
    )
    .option('--cursor <cursor>', 'where to go on, as printed behind the lines')
}
