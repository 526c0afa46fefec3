import { readFileSync } from 'node:fs'

import { Command, Help, type OutputConfiguration } from '@commander-js/extra-typings'
import type { Command as UntypedCommand } from 'commander'

import { groups } from './command/flags.ts'
import {
  printError,
  printOut,
  showsColours,
  standardError,
  standardOutput,
  type OutputStream,
} from './command/command-context.ts'
import { addDoctorCommand } from './doctor/doctor.ts'
import { addEvalAuditCommand } from './eval/audit.ts'
import { addEvalCompareCommand } from './eval/compare.ts'
import { addEvalExportCommand } from './eval/export.ts'
import { addEvalNoteCommand } from './eval/note.ts'
import { addEvalRegradeCommand } from './eval/regrade.ts'
import { addRubricCommand } from './eval/rubric.ts'
import { addEvalRunCommand } from './eval/run.ts'
import { addEvalRunsCommand } from './eval/runs.ts'
import { addEvalShowCommand } from './eval/show.ts'
import { addEvalViewCommand } from './eval/view.ts'
import { addFromTracesCommand } from './dataset/from-traces.ts'
import { addValidateDatasetCommand } from './platform/dataset.ts'
import { addPlatformCommands } from './platform/platform.ts'
import { addPlatformFlags } from './platform/platform-flags.ts'
import { addInitCommand } from './rollout/init.ts'
import { addServeCommand } from './serve/serve.ts'
import { addTrainLocalCommand } from './train/local.ts'
import { addTrainTinkerCommand } from './train/tinker.ts'
import { addTestCommand } from './try/test.ts'
import { addValidateCommand } from './try/validate.ts'
import { addWorkerCommand } from './worker/worker.ts'

/**
 * The command line. Commands load their code when they are called, so that `--help` does not wait
 * for servers and frameworks.
 *
 * @param options.silent - prints no message for wrong use, because the caller does
 */
export function createProgram(
  setExitCode: (code: number) => void,
  { silent = false }: { readonly silent?: boolean } = {},
): UntypedCommand {
  let unlisted: ReadonlySet<unknown> = new Set()
  const program = new Command('osmosis')
    .description('Train and evaluate agents by reinforcement learning.')
    .version(packageVersion())
    .exitOverride()
    .configureHelp({
      groupItems: inOrderOfGroups,
      minWidthToWrap: 20,
      visibleCommands: (command) =>
        new Help().visibleCommands(command).filter((one) => !unlisted.has(one)),
    })
    .configureOutput(silent ? { ...commandOutput, writeErr: () => {} } : commandOutput)
  addServeCommand(program, async (entrypoint, flags) => {
    const { serveCommand } = await import('./serve/serve-command.ts')
    await serveCommand(entrypoint, flags)
  })
  addWorkerCommand(program, async (entrypoint, flags) => {
    const { workerCommand } = await import('./worker/worker-command.ts')
    await workerCommand(entrypoint, flags)
  })
  addValidateCommand(program, setExitCode)
  addTestCommand(program, setExitCode)
  const evals = program
    .command('eval')
    .description('evaluate agents, on this machine or on the platform')
    .commandsGroup('On this machine:')
  addEvalRunCommand(evals, async (config, flags) => {
    const { runVariants } = await import('./eval/run/run-variants.ts')
    setExitCode(await runVariants(config, flags))
  })
  addEvalRunsCommand(evals, setExitCode)
  addEvalShowCommand(evals, setExitCode)
  addEvalCompareCommand(evals, setExitCode)
  addEvalViewCommand(evals, setExitCode)
  addEvalRegradeCommand(evals, setExitCode)
  addEvalNoteCommand(evals, setExitCode)
  addEvalAuditCommand(evals, setExitCode)
  addEvalExportCommand(evals, setExitCode)
  addRubricCommand(evals, setExitCode)
  const train = program
    .command('train')
    .description('train models here, on a Tinker service, or on the platform')
  addTrainLocalCommand(train, async (config, flags) => {
    const { trainLocalCommand } = await import('./train/run/local-training.ts')
    setExitCode(await trainLocalCommand(config, flags))
  })
  addTrainTinkerCommand(train, async (config, flags) => {
    const { trainTinkerCommand } = await import('./train/run/tinker-training.ts')
    setExitCode(await trainTinkerCommand(config, flags))
  })
  const datasets = program.command('dataset').description('make and check datasets')
  const settings = { version: packageVersion(), setExitCode }
  addFromTracesCommand(datasets, setExitCode)
  addValidateDatasetCommand(datasets, settings)
  const rollouts = program.command('rollout').description('add rollouts')
  addInitCommand(rollouts, setExitCode)
  addDoctorCommand(program, setExitCode)
  acceptPlatformFlags(program)
  unlisted = addPlatformCommands(program, { datasets, evals, train }, settings)
  // Each subcommand has its own type, so a list of commands is untyped.
  const untyped = program as unknown as UntypedCommand
  nameHelp(untyped, 'osmosis')
  return untyped
}

/** The flags of the program and its commands, in the order of `groups`; other groups follow. */
const inOrderOfGroups: Help['groupItems'] = (unsorted, visible, groupOf) => {
  const order: readonly string[] = Object.values(groups)
  const placeOf = (heading: string): number =>
    order.includes(heading) ? order.indexOf(heading) : order.length
  const items = new Help().groupItems(unsorted, visible, groupOf)
  return new Map([...items].toSorted(([one], [other]) => placeOf(one) - placeOf(other)))
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

/** Adds to each message for wrong use how to print the help of that command. */
function nameHelp(command: UntypedCommand, name: string): void {
  const listed = command.commands.length > 0 ? 'commands and flags' : 'arguments and flags'
  command.showHelpAfterError(`(${name} --help lists ${listed})`)
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`)
}

/** The version in package.json. */
export function packageVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** The common flags of commands of the platform are also accepted before the command. */
function acceptPlatformFlags(program: Command): void {
  addPlatformFlags(program.enablePositionalOptions())
  program.hook('preAction', (_program, command) => {
    const isAsked = ['json', 'platform', 'envFile', 'workspace'].some(
      (name) => program.getOptionValue(name as never) !== undefined,
    )
    if (!isAsked || command.options.some(({ long }) => long === '--platform')) return
    program.error(
      `error: --json, --platform, --env-file and --workspace are flags of commands that use the platform, which ${command.name()} does not`,
      { exitCode: 2 },
    )
  })
}
