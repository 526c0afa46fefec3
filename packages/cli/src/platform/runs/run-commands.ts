import type { RunFileType } from '@osmosis/platform'
import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'

import { addPythonName, example, groups, type FlagsOf } from '../../command/flags.ts'
import {
  addListFlags,
  addLogFlags,
  onPlatform,
  platformCommand,
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

function declareSubmit(group: Command, kind: RunKind) {
  const folder = `configs/${kind === 'eval' ? 'eval' : 'training'}/`
  return platformCommand(group, 'submit')
    .description('start a run on the platform')
    .argument('<config>', `a config in ${folder}`)
    .optionsGroup(groups.inputs)
    .option('--secrets-file <file>', 'values of secrets, as NAME=value; - reads stdin')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example(`osmosis ${kind} submit ${folder}price-check.toml`))
}

/** Flags of `submit`. */
export type SubmitFlags = FlagsOf<typeof declareSubmit>

function declareInfo(group: Command, kind: RunKind) {
  return platformCommand(group, 'info')
    .description('show a run on the platform, with its metrics')
    .argument('<run>', 'its name or id')
    .optionsGroup(groups.output)
    .option('-o, --output <file>', 'also write the JSON to this file')
    .addHelpText('after', example(`osmosis ${kind} info my-run --output run.json`))
}

/** Flags of `info`. */
export type InfoFlags = FlagsOf<typeof declareInfo>

function declareChange(group: Command, kind: RunKind, action: 'stop' | 'retry') {
  return platformCommand(group, action)
    .description(
      action === 'stop'
        ? 'stop a run on the platform'
        : 'run the failed items of a run on the platform again',
    )
    .argument('<run>', 'its name or id')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example(`osmosis ${kind} ${action} my-run`))
}

/** Flags of `stop` and `retry`. */
export type ChangeFlags = FlagsOf<typeof declareChange>

function declareDownload(evals: Command) {
  const command = platformCommand(evals, 'download')
    .description('download the results of a run on the platform')
    .argument('<run>', 'its name or id')
    .optionsGroup(groups.inputs)
    .addOption(
      new Option(
        '--types <types>',
        `file types, e.g. metrics,logs: ${runFileTypes.join(', ')}, or all (default: metrics,trajectories)`,
      ).argParser(readTypes),
    )
    .option('--rows <list>', 'only these rows, e.g. 3,10-20', readRows)
    .optionsGroup(groups.output)
    .option(
      '-o, --output <folder>',
      'folder to write to (default: a folder with the name of the run)',
    )
    .option('--overwrite', 'also replace files of the same size')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis eval download my-run --types metrics,logs'))
  addPythonName(command, '--type <types>', '--types')
  return command
}

/** Flags of `eval download`. */
export type RunDownloadFlags = FlagsOf<typeof declareDownload>

/** Adds the commands for hosted runs to `eval`, and `train` with its commands. */
export function addRunCommands(program: Command, evals: Command, settings: ProgramSettings): void {
  evals.commandsGroup('On the platform:')
  addCommonCommands(evals, 'eval', settings)
  onPlatform(declareChange(evals, 'eval', 'retry'), settings, async (session, flags, name) =>
    (await import('./run-actions.ts')).retryRun(session, name, flags),
  )
  onPlatform(declareDownload(evals), settings, async (session, flags, name) =>
    (await import('./download-run.ts')).downloadRunCommand(session, name, flags),
  )
  const train = program.command('train').description('train models on the platform')
  addCommonCommands(train, 'train', settings)
}

function addCommonCommands(group: Command, kind: RunKind, settings: ProgramSettings): void {
  onPlatform(declareSubmit(group, kind), settings, async (session, flags, config) => {
    const { submitCommand } = await import('./submit-run.ts')
    await submitCommand(session, kind, config, flags)
  })
  const list = platformCommand(group, 'list')
    .description('list the runs on the platform')
    .addHelpText('after', example(`osmosis ${kind} list --limit 10`))
  onPlatform(addListFlags(list), settings, async (session, flags) =>
    (await import('./run-actions.ts')).listRuns(session, kind, flags),
  )
  onPlatform(declareInfo(group, kind), settings, async (session, flags, name) =>
    (await import('./run-actions.ts')).showRun(session, kind, name, flags),
  )
  const logs = platformCommand(group, 'logs')
    .description('show the log of a run on the platform')
    .argument('<run>', 'its name or id')
    .addHelpText('after', example(`osmosis ${kind} logs my-run`))
  onPlatform(addLogFlags(logs), settings, async (session, flags, name) =>
    (await import('./run-actions.ts')).showRunLogs(session, kind, name, flags),
  )
  onPlatform(declareChange(group, kind, 'stop'), settings, async (session, flags, name) =>
    (await import('./run-actions.ts')).stopRun(session, kind, name, flags),
  )
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
