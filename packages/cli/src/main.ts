import { isOsmosisError } from '@osmosis/core'
import { CommanderError } from 'commander'

import { createProgram } from './program.ts'
import { endSignal, printError, runWithin, type CommandSurroundings } from './surroundings.ts'
import { isWrongUse, wrongUseCode } from './wrong-use.ts'
import { printWrongUse } from './wrong-use-document.ts'

/**
 * Runs the `osmosis` command and resolves with its exit code, or with undefined when it goes on
 * because it serves, until a signal ends the process. Results go to stdout; progress and errors go to stderr.
 *
 * @param args - what stands behind `osmosis` on the command line
 * @param surroundings - what it is called with. Default: what this process was started with
 */
export async function main(
  args: readonly string[],
  surroundings: CommandSurroundings = {},
): Promise<number | undefined> {
  return runWithin(surroundings, () => runCommand(args))
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
    const goesOn = ['serve', 'worker'].includes(command.name()) && endSignal() === undefined
    if (goesOn) exitCode = undefined
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    // Commander has printed the help that was asked for, or its own complaint.
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0
      if (inJson) await printWrongUse(program, args, error)
      return wrongUseCode
    }
    const code = isWrongUse(error) ? wrongUseCode : 1
    if (inJson && code === wrongUseCode) await printWrongUse(program, args, error as Error)
    else printError(`${describe(error)}\n`)
    return code
  }
}

/** What was done wrong needs a sentence; what we did wrong needs a stack. */
function describe(error: unknown): string {
  if (isOsmosisError(error) || isWrongUse(error)) return `error: ${(error as Error).message}`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
