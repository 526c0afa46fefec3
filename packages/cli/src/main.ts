import { isOsmosisError } from '@osmosis/core'
import { CommanderError } from 'commander'

import { createProgram } from './program.ts'

/** Code of the user may hold the process open with a timer or a socket that nobody ends. */
const exitAfterEndMs = 2000

/**
 * Runs the `osmosis` command and resolves with its exit code. Results go to stdout; progress and
 * errors go to stderr. What serves goes on; the process of a command that has ended does not outlive
 * it by more than two seconds.
 *
 * @param args - what stands behind `osmosis` on the command line
 */
export async function main(args: readonly string[]): Promise<number> {
  let exitCode = 0
  const program = createProgram((code) => {
    exitCode = code
  })
  program.hook('postAction', (_program, command) => {
    if (command.name() !== 'serve') endSoon()
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    // Commander has printed its own complaint, or the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode
    process.stderr.write(`${describe(error)}\n`)
    endSoon()
    return 1
  }
}

function endSoon(): void {
  setTimeout(() => process.exit(), exitAfterEndMs).unref()
}

/** What was done wrong needs a sentence; what we did wrong needs a stack. */
function describe(error: unknown): string {
  if (isOsmosisError(error)) return `error: ${error.message}`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
