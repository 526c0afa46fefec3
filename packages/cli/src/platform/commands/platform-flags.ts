import {
  CommanderError,
  Option,
  type Command,
  type OptionValues,
} from '@commander-js/extra-typings'

import { adding, countFrom, groups, type FlagsOf } from '../../command/flags.ts'
import type { PlatformSession } from '../session/platform-session.ts'

/** Settings that commands get from the program. */
export interface ProgramSettings {
  readonly version: string
  readonly setExitCode: (code: number) => void
}

function platformFlags(command: Command) {
  return (
    command
      .optionsGroup(groups.platform)
      .option('--json', 'print JSON')
      // The Python command line has this flag for undecorated text, which is the only text here.
      .addOption(new Option('--plain').hideHelp())
      .option('--platform <url>', 'the platform (default: $OSMOSIS_PLATFORM_URL, the hosted one)')
      .option(
        '--env-file <file>',
        'file with variables, instead of the nearest .env ($OSMOSIS_ENV_FILE)',
      )
      .option(
        '--workspace <name>',
        'name of the workspace, instead of the workspace of the git origin',
      )
      .optionsGroup('Options:')
  )
}

/** Flags of every command that uses the platform; also accepted directly after `osmosis`. */
type PlatformFlags = FlagsOf<typeof platformFlags>

/** Adds the common flags of commands of the platform. */
export const addPlatformFlags = adding(platformFlags)

/** Exit code of these commands for wrong use. */
const usageExitCode = 2

/** Declares a command that uses the platform. */
export function platformCommand(parent: Command, name: string): Command<[], PlatformFlags> {
  const command = parent.command(name).exitOverride((error) => {
    throw new CommanderError(error.exitCode && usageExitCode, error.code, error.message)
  })
  return addPlatformFlags(command)
}

/**
 * Sets the action of a command that uses the platform.
 *
 * @param work - resolves with the exit code, if it is not 0
 */
export function onPlatform<Args extends unknown[], Flags extends OptionValues>(
  command: Command<Args, Flags>,
  settings: ProgramSettings,
  work: (
    session: PlatformSession,
    flags: Flags & PlatformFlags,
    ...args: Args
  ) => Promise<number | void>,
): void {
  command.action(async () => {
    const { runPlatformCommand } = await import('../session/platform-session.ts')
    const flags = command.optsWithGlobals() as Flags & PlatformFlags
    const name = `${command.parent?.name()} ${command.name()}`
    settings.setExitCode(
      await runPlatformCommand({ name, version: settings.version, flags }, (session) =>
        work(session, flags, ...command.processedArgs),
      ),
    )
  })
}

function listFlags(command: Command) {
  return command
    .optionsGroup(groups.limits)
    .option('--limit <items>', 'maximum number, up to 50 (default: 50)', countFrom(1, 50))
    .option('--offset <items>', 'skip the first N', countFrom(0))
    .addOption(new Option('--all', 'all pages').conflicts('limit'))
}

/** Adds the flags of lists. */
export const addListFlags = adding(listFlags)

function logFlags(command: Command) {
  return command
    .optionsGroup(groups.limits)
    .option('--limit <lines>', 'maximum number, up to 200 (default: 50)', countFrom(1, 200))
    .addOption(
      new Option('--direction <direction>', 'direction of the cursor (default: older)').choices([
        'older',
        'newer',
      ]),
    )
    .option('--cursor <cursor>', 'position to continue from, which is printed after the lines')
}

/** Adds the flags of `logs`. */
export const addLogFlags = adding(logFlags)
