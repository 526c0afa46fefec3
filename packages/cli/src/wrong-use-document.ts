import { CommanderError, type Command } from 'commander'

import { packageVersion } from './program.ts'

/** Prints what was wrong with a command line as the JSON document that all errors of `--json` are. */
export async function printWrongUse(
  program: Command,
  args: readonly string[],
  error: Error,
): Promise<void> {
  const { words, command } = calledCommand(program, args)
  const needs = `osmosis${words.map((word) => ` ${word}`).join('')} needs a command: ${command.commands.map((one) => one.name()).join(', ')}`
  const isHelp = error instanceof CommanderError && error.code === 'commander.help'
  const why = isHelp ? needs : error.message.replace(/^error: /, '')
  // Loaded here alone: it needs the client of the platform.
  const [{ CommandOutput }, { PlatformError }] = await Promise.all([
    import('./platform/command-output.ts'),
    import('@osmosis/platform'),
  ])
  const output = new CommandOutput({
    command: words.join(' '),
    version: packageVersion(),
    json: true,
  })
  output.fail(new PlatformError('VALIDATION', why))
}

/** The command as far as the words name one. */
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
