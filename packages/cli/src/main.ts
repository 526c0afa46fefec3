import { isOsmosisError } from '@osmosis/core'
import { CommanderError, type Command } from 'commander'

import {
  endSignal,
  printError,
  runWithin,
  standardError,
  type CommandContext,
} from './command/command-context.ts'
import { wrongUseCode } from './command/exit-codes.ts'
import { outputWidth, wrapped } from './command/terminal-text.ts'
import { isWrongUse } from './command/wrong-use.ts'
import { packageVersion } from './inputs/provenance.ts'
import { createProgram } from './program.ts'

/**
 * Runs the `osmosis` command and resolves with its exit code, or with undefined when it continues to
 * serve until a signal ends the process. Results go to stdout; progress and errors go to stderr.
 *
 * @param args - the arguments after `osmosis` on the command line
 * @param context - its streams, variables and folder. Default: those of this process
 */
export async function main(
  args: readonly string[],
  context: CommandContext = {},
): Promise<number | undefined> {
  return runWithin(context, () => runCommand(args))
}

async function runCommand(args: readonly string[]): Promise<number | undefined> {
  let exitCode: number | undefined = 0
  const inJson = args.slice(0, args.indexOf('--') >>> 0).includes('--json')
  const program = createProgram(
    (code) => {
      exitCode = code
    },
    { silent: inJson },
  )
  program.hook('postAction', (_program, command) => {
    const serves = ['serve', 'worker'].includes(command.name()) && endSignal() === undefined
    if (serves) exitCode = undefined
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    // Commander has printed the help or its error message.
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0
      if (inJson) await printWrongUse(program, args, error)
      else printError(elsewhere(program, error))
      return wrongUseCode
    }
    const code = isWrongUse(error) ? wrongUseCode : 1
    if (inJson && code === wrongUseCode) await printWrongUse(program, args, error as Error)
    else printError(`${describe(error)}\n`)
    return code
  }
}

/** Errors of the user need a sentence; our own errors need a stack. */
function describe(error: unknown): string {
  if (isOsmosisError(error) || isWrongUse(error)) {
    return wrapped(`error: ${(error as Error).message}`, outputWidth(standardError())).join('\n')
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

/** Prints wrong use as the JSON document that all errors of `--json` have. */
async function printWrongUse(
  program: Command,
  args: readonly string[],
  error: Error,
): Promise<void> {
  const { words, command } = calledCommand(program, args)
  const needs = `osmosis${words.map((word) => ` ${word}`).join('')} needs a command: ${command.commands.map((one) => one.name()).join(', ')}`
  const isHelp = error instanceof CommanderError && error.code === 'commander.help'
  const why = isHelp ? needs : error.message.replace(/^error: /, '')
  // Loaded only here: it needs the client of the platform.
  const [{ CommandOutput }, { PlatformError }] = await Promise.all([
    import('./platform/session/command-output.ts'),
    import('./platform/client/platform-error.ts'),
  ])
  const output = new CommandOutput({
    command: words.join(' '),
    version: packageVersion(),
    json: true,
  })
  output.fail(new PlatformError('VALIDATION', why))
}

/** The commands of other topics that have the name which is unknown where it was written, as a line; '' for none. */
function elsewhere(program: Command, { code, message }: CommanderError): string {
  const [, unknown] = /'(.+?)'/.exec(message) ?? []
  if (code !== 'commander.unknownCommand' || unknown === undefined) return ''
  const found = commandsNamed(program, unknown)
  return found.length === 0 ? '' : `Did you mean ${found.join(' or ')}?\n`
}

function commandsNamed(command: Command, name: string, words = 'osmosis'): string[] {
  return command.commands.flatMap((below) => {
    const called = `${words} ${below.name()}`
    return [...(below.name() === name ? [called] : []), ...commandsNamed(below, name, called)]
  })
}

/** The most specific command that the arguments name. */
function calledCommand(
  program: Command,
  args: readonly string[],
): { words: readonly string[]; command: Command } {
  const words: string[] = []
  let command = program
  for (const arg of args) {
    const below = command.commands.find((one) => one.name() === arg)
    if (below === undefined) continue
    command = below
    words.push(arg)
  }
  return { words, command }
}
