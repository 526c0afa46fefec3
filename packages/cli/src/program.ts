import { Command, Help, type OutputConfiguration } from '@commander-js/extra-typings'
import type { Command as UntypedCommand } from 'commander'

import {
  endSignal,
  printError,
  printOut,
  showsColours,
  standardError,
  standardOutput,
  type OutputStream,
} from './command/command-context.ts'
import { groups } from './command/flags.ts'
import { outputWidth, wrapped } from './command/terminal-text.ts'
import { addDoctorCommand } from './doctor/doctor.ts'
import { declareAudit } from './eval/audit.ts'
import { declareCompare } from './eval/compare.ts'
import { declareExport } from './eval/export.ts'
import { declareNote } from './eval/note.ts'
import { declareRegrade } from './eval/regrade.ts'
import { declareRun } from './eval/run.ts'
import { declareRuns } from './eval/runs.ts'
import { declareShow } from './eval/show.ts'
import { declareView } from './eval/view.ts'
import { packageVersion } from './inputs/provenance.ts'
import { addPlatformCommands } from './platform/commands.ts'
import { addInitCommand } from './rollout/init.ts'
import { declareServe } from './serve/serve.ts'
import { declareLocal } from './train/local.ts'
import { declareTinker } from './train/tinker.ts'
import { declareTest } from './try/test.ts'
import { declareValidate } from './try/validate.ts'
import { declareWorker } from './worker/worker.ts'

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
  declareServe(program).action(async (entrypoint, flags) => {
    const { serveCommand } = await import('./serve/serve-command.ts')
    const { closed } = await serveCommand(entrypoint, flags)
    if (endSignal() !== undefined) await closed
  })
  declareWorker(program).action(async (entrypoint, flags) => {
    const { workerCommand } = await import('./worker/worker-command.ts')
    await workerCommand(entrypoint, flags)
  })
  declareValidate(program).action(async (name, flags) => {
    const { validateCommand } = await import('./try/validate/validate-agents.ts')
    setExitCode(await validateCommand(name, flags))
  })
  declareTest(program).action(async (flags) => {
    const { testCommand } = await import('./try/test/test-rows.ts')
    setExitCode(await testCommand(flags))
  })
  const evals = program
    .command('eval')
    .description('evaluate agents, on this machine or on the platform')
    .commandsGroup('On this machine:')
  declareRun(evals).action(async (config, flags) => {
    const { runVariants } = await import('./eval/run/run-variants.ts')
    setExitCode(await runVariants(config, flags))
  })
  declareRuns(evals).action(async (flags) => {
    const { evalRunsCommand } = await import('./eval/show/runs-command.ts')
    setExitCode(await evalRunsCommand(flags))
  })
  declareShow(evals).action(async (run, rollout, flags) => {
    const { evalShowCommand } = await import('./eval/show/show-command.ts')
    setExitCode(await evalShowCommand(run, rollout, flags))
  })
  declareCompare(evals).action(async (before, after, flags) => {
    const { evalCompareCommand } = await import('./eval/show/compare-command.ts')
    setExitCode(await evalCompareCommand(before, after, flags))
  })
  declareView(evals).action(async (run, flags) => {
    const { evalViewCommand } = await import('./eval/view/open-viewer.ts')
    setExitCode(await evalViewCommand(run, flags))
  })
  declareRegrade(evals).action(async (name, flags) => {
    const { evalRegradeCommand } = await import('./eval/regrade/regrade-run.ts')
    setExitCode(await evalRegradeCommand(name, flags))
  })
  declareNote(evals).action(async (name, rollout, text, flags) => {
    const { evalNoteCommand } = await import('./eval/note/run-notes.ts')
    setExitCode(await evalNoteCommand(name, rollout, text, flags))
  })
  declareAudit(evals).action(async (name, flags) => {
    const { evalAuditCommand } = await import('./eval/audit/audit-command.ts')
    setExitCode(await evalAuditCommand(name, flags))
  })
  declareExport(evals).action(async (name, flags) => {
    const { evalExportCommand } = await import('./eval/export/export-run.ts')
    setExitCode(await evalExportCommand(name, flags))
  })
  const train = program
    .command('train')
    .description('train models here, on a Tinker service, or on the platform')
  declareLocal(train).action(async (config, flags) => {
    const { trainLocalCommand } = await import('./train/run/local-training.ts')
    setExitCode(await trainLocalCommand(config, flags))
  })
  declareTinker(train).action(async (config, flags) => {
    const { trainTinkerCommand } = await import('./train/run/tinker-training.ts')
    setExitCode(await trainTinkerCommand(config, flags))
  })
  const datasets = program.command('dataset').description('check and keep datasets')
  const rollouts = program.command('rollout').description('add rollouts')
  addInitCommand(rollouts, setExitCode)
  addDoctorCommand(program, setExitCode)
  const settings = { version: packageVersion(), setExitCode }
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
  outputError: (text, write) => write(wrapped(text, outputWidth(standardError())).join('\n')),
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
