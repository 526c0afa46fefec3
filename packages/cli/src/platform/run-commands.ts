import { Option, type Command } from 'commander'

import { repeated } from '../flag-values.ts'
import { addListFlags, addLogFlags, type ListFlags, type LogFlags } from './list-flags.ts'
import { addPlatformCommand, type PlatformFlags, type ProgramSettings } from './platform-flags.ts'
import type { RunKind } from './run-kind.ts'

/** Flags of commands that change something about runs. */
export interface RunFlags extends PlatformFlags {
  yes?: boolean
}

/** Flags of `submit`. */
export interface SubmitFlags extends RunFlags {
  secretsFile?: string
}

/** Flags of `eval download`. */
export interface RunDownloadFlags extends RunFlags {
  types?: readonly string[]
  rows?: string
  output?: string
  overwrite?: boolean
}

/** Adds the commands for hosted runs to `eval`, and `train` with its commands. */
export function addRunCommands(program: Command, settings: ProgramSettings): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  if (evals !== undefined) {
    evals.commandsGroup('On the platform:')
    addCommonCommands(evals, 'eval', settings)
    addEvalOnlyCommands(evals, settings)
  }
  const train = program.command('train').description('train models on the platform')
  addCommonCommands(train, 'train', settings)
}

function addCommonCommands(group: Command, kind: RunKind, settings: ProgramSettings): void {
  addPlatformCommand(group, 'submit', settings, {
    async run(session, flags: SubmitFlags, [config = '']) {
      const { submitCommand } = await import('./submit-command.ts')
      await submitCommand(session, kind, config, flags)
    },
  })
    .description('start a run on the platform')
    .argument('<config>', `a config in configs/${kind === 'eval' ? 'eval' : 'training'}/`)
    .option('--secrets-file <file>', 'values of secrets, as NAME=value; - reads stdin')
    .option('-y, --yes', 'do not ask')
  addListFlags(
    addPlatformCommand(group, 'list', settings, {
      run: async (session, flags: ListFlags) =>
        (await import('./run-work.ts')).listRuns(session, kind, flags),
    }).description('list the runs on the platform'),
  )
  addPlatformCommand(group, 'info', settings, {
    run: async (session, _flags, [name = '']) =>
      (await import('./run-work.ts')).showRun(session, kind, name),
  })
    .description('show a run on the platform, with its metrics')
    .argument('<run>', 'its name or id')
  addLogFlags(
    addPlatformCommand(group, 'logs', settings, {
      run: async (session, flags: LogFlags, [name = '']) =>
        (await import('./run-work.ts')).showRunLogs(session, kind, name, flags),
    })
      .description('show the log of a run on the platform')
      .argument('<run>', 'its name or id'),
  )
  addPlatformCommand(group, 'stop', settings, {
    run: async (session, flags: RunFlags, [name = '']) =>
      (await import('./run-work.ts')).stopRun(session, kind, name, flags),
  })
    .description('stop a run on the platform')
    .argument('<run>', 'its name or id')
    .option('-y, --yes', 'do not ask')
}

function addEvalOnlyCommands(evals: Command, settings: ProgramSettings): void {
  addPlatformCommand(evals, 'retry', settings, {
    run: async (session, flags: RunFlags, [name = '']) =>
      (await import('./run-work.ts')).retryRun(session, name, flags),
  })
    .description('run what failed in a run on the platform again')
    .argument('<run>', 'its name or id')
    .option('-y, --yes', 'do not ask')
  addPlatformCommand(evals, 'download', settings, {
    run: async (session, flags: RunDownloadFlags, [name = '']) =>
      (await import('./download-command.ts')).downloadRunCommand(session, name, flags),
  })
    .description('download the results of a run on the platform')
    .argument('<run>', 'its name or id')
    .addOption(
      new Option(
        '--types <type>',
        'what; may be repeated (default: metrics and trajectories)',
      ).argParser(repeated),
    )
    .option('--rows <list>', 'of these rows, e.g. 3,10-20')
    .option('-o, --output <folder>', 'where to (default: a folder of the name of the run)')
    .option('--overwrite', 'replace files of the same size as well')
    .option('-y, --yes', 'do not ask')
}
