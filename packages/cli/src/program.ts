import { readFileSync } from 'node:fs'

import { Command, type OutputConfiguration } from 'commander'

import { addAgentLoopCommands } from './agent-loop/agent-loop-commands.ts'
import { addDoctorCommand } from './doctor/doctor-options.ts'
import { addEvalExportCommand } from './eval-export/eval-export-options.ts'
import { addEvalRegradeCommands } from './eval-regrade/eval-regrade-options.ts'
import { addRubricCommand } from './eval-rubric/rubric-options.ts'
import { addEvalCommands } from './eval-run/eval-commands.ts'
import { addEvalShowCommands } from './eval-show/eval-show-options.ts'
import { addEvalViewCommand } from './eval-view/eval-view-options.ts'
import { addPlatformCommands } from './platform/platform-commands.ts'
import { addWorkerCommand } from './worker/worker-options.ts'
import { addRolloutCommands } from './rollout-send/rollout-commands.ts'
import { addServeCommand } from './serve/serve-options.ts'
import {
  printError,
  printOut,
  showsColours,
  standardError,
  standardOutput,
  type OutputStream,
} from './surroundings.ts'

/**
 * The command line. Commands load their code when they are called, so that `--help` does not wait
 * for servers and frameworks.
 *
 * @param options.silent - says nothing of wrong use, which whoever calls it does
 */
export function createProgram(
  setExitCode: (code: number) => void,
  { silent = false }: { readonly silent?: boolean } = {},
): Command {
  const program = new Command('osmosis')
    .description('Train and evaluate agents by reinforcement learning.')
    .version(packageVersion())
    .exitOverride()
    .configureOutput(silent ? { ...commandOutput, writeErr: () => {} } : commandOutput)
  addServeCommand(program)
  addWorkerCommand(program)
  addAgentLoopCommands(program, setExitCode)
  addEvalCommands(program, setExitCode)
  addEvalShowCommands(program, setExitCode)
  addEvalViewCommand(program, setExitCode)
  addEvalRegradeCommands(program, setExitCode)
  addEvalExportCommand(program, setExitCode)
  addRubricCommand(program, setExitCode)
  addPlatformCommands(program, { version: packageVersion(), setExitCode })
  addRolloutCommands(program, setExitCode)
  addDoctorCommand(program, setExitCode)
  nameHelp(program, 'osmosis')
  return program
}

const commandOutput: OutputConfiguration = {
  writeOut: (text) => void printOut(text),
  writeErr: (text) => void printError(text),
  getOutHelpWidth: () => widthOf(standardOutput()),
  getErrHelpWidth: () => widthOf(standardError()),
  getOutHasColors: () => showsColours(standardOutput()),
  getErrHasColors: () => showsColours(standardError()),
}

function widthOf({ isTTY, columns = 80 }: OutputStream): number {
  return isTTY === true ? columns : 80
}

/** Behind a wrong use stands the help of the command that was meant, which alone has its flags. */
function nameHelp(command: Command, name: string): void {
  const listed = command.commands.length > 0 ? 'commands and flags' : 'arguments and flags'
  command.showHelpAfterError(`(${name} --help lists ${listed})`)
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`)
}

/** What the manifest says. */
export function packageVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}
