import type { RunFileType } from '@osmosis/platform'
import { InvalidArgumentError, Option, type Command } from 'commander'

import { addPythonName } from '../../command/flags.ts'
import {
  addListFlags,
  addLogFlags,
  type ListFlags,
  type LogFlags,
  addPlatformCommand,
  type PlatformFlags,
  type ProgramSettings,
} from '../platform-flags.ts'
import type { RunKind } from './run-record.ts'

/** Listed here as well: for a list of flags the client of the platform is not loaded. */
const runFileTypes = [
  'metrics',
  'trajectories',
  'artifacts',
  'logs',
] as const satisfies RunFileType[]

/** Flags of commands that change something about runs. */
export interface RunFlags extends PlatformFlags {
  yes?: boolean
}

/** Flags of `info`. */
export interface InfoFlags extends PlatformFlags {
  output?: string
}

/** Flags of `submit`. */
export interface SubmitFlags extends RunFlags {
  secretsFile?: string
}

/** Flags of `eval download`. */
export interface RunDownloadFlags extends RunFlags {
  types?: readonly RunFileType[]
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
      const { submitCommand } = await import('./submit-run.ts')
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
        (await import('./run-actions.ts')).listRuns(session, kind, flags),
    }).description('list the runs on the platform'),
  )
  addPlatformCommand(group, 'info', settings, {
    run: async (session, flags: InfoFlags, [name = '']) =>
      (await import('./run-actions.ts')).showRun(session, kind, name, flags),
  })
    .description('show a run on the platform, with its metrics')
    .argument('<run>', 'its name or id')
    .option('-o, --output <file>', 'write the JSON there as well')
  addLogFlags(
    addPlatformCommand(group, 'logs', settings, {
      run: async (session, flags: LogFlags, [name = '']) =>
        (await import('./run-actions.ts')).showRunLogs(session, kind, name, flags),
    })
      .description('show the log of a run on the platform')
      .argument('<run>', 'its name or id'),
  )
  addPlatformCommand(group, 'stop', settings, {
    run: async (session, flags: RunFlags, [name = '']) =>
      (await import('./run-actions.ts')).stopRun(session, kind, name, flags),
  })
    .description('stop a run on the platform')
    .argument('<run>', 'its name or id')
    .option('-y, --yes', 'do not ask')
}

function addEvalOnlyCommands(evals: Command, settings: ProgramSettings): void {
  addPlatformCommand(evals, 'retry', settings, {
    run: async (session, flags: RunFlags, [name = '']) =>
      (await import('./run-actions.ts')).retryRun(session, name, flags),
  })
    .description('run what failed in a run on the platform again')
    .argument('<run>', 'its name or id')
    .option('-y, --yes', 'do not ask')
  const download = addPlatformCommand(evals, 'download', settings, {
    run: async (session, flags: RunDownloadFlags, [name = '']) =>
      (await import('./download-run.ts')).downloadRunCommand(session, name, flags),
  })
    .description('download the results of a run on the platform')
    .argument('<run>', 'its name or id')
    .addOption(
      new Option(
        '--types <types>',
        `what, e.g. metrics,logs: ${runFileTypes.join(', ')}, or all (default: metrics,trajectories)`,
      ).argParser(readTypes),
    )
    .option('--rows <list>', 'of these rows, e.g. 3,10-20', readRows)
    .option('-o, --output <folder>', 'where to (default: a folder of the name of the run)')
    .option('--overwrite', 'replace files of the same size as well')
    .option('-y, --yes', 'do not ask')
  addPythonName(download, '--type <types>', '--types')
}

/** The flag may be repeated. */
function readTypes(value: string, earlier: readonly RunFileType[] = []): readonly RunFileType[] {
  const words = value.split(',').map((word) => word.trim().toLowerCase())
  if (words.length === 1 && words[0] === 'all') return runFileTypes
  const types = words.map((word) => {
    const type = runFileTypes.find((known) => known === word)
    if (type !== undefined) return type
    throw new InvalidArgumentError(`It must be some of ${runFileTypes.join(', ')}, or all.`)
  })
  return [...new Set([...earlier, ...types])]
}

function readRows(value: string): string {
  const rows = value.trim()
  const areRows = rows.split(',').every((part) => {
    const [, from = '', to = from] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? []
    return from !== '' && Number(from) <= Number(to)
  })
  if (areRows) return rows
  throw new InvalidArgumentError('It must be rows and ranges of rows, e.g. 3,10-20.')
}
