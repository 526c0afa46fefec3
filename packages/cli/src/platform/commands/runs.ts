import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'

import { addPythonName, example, groups } from '../../command/flags.ts'
import type { RunKind } from '../actions/runs/run-record.ts'
import type { RunFileType } from '../files/run-files.ts'
import {
  addListFlags,
  addLogFlags,
  onPlatform,
  platformCommand,
  type ProgramSettings,
} from './platform-flags.ts'

const loadActions = async () => import('../actions/runs/hosted-runs.ts')

/** Adds the commands that hosted runs of both kinds have. */
export function addHostedRunCommands(
  group: Command,
  kind: RunKind,
  settings: ProgramSettings,
): void {
  const folder = `configs/${kind === 'eval' ? 'eval' : 'training'}/`
  const submit = platformCommand(group, 'submit')
    .description('start a run on the platform')
    .argument('<config>', `a config in ${folder}`)
    .optionsGroup(groups.inputs)
    .option('--secrets-file <file>', 'values of secrets, as NAME=value; - reads stdin')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example(`osmosis ${kind} submit ${folder}price-check.toml`))
  onPlatform(submit, settings, async (session, flags, config) => {
    const { submitRun } = await import('../actions/runs/submit-run.ts')
    await submitRun(session, kind, config, flags)
  })
  const list = platformCommand(group, 'list')
    .description('list the runs on the platform')
    .addHelpText('after', example(`osmosis platform ${kind} list --limit 10`))
  onPlatform(addListFlags(list), settings, async (session, range) =>
    (await loadActions()).listRuns(session, kind, range),
  )
  const info = platformCommand(group, 'info')
    .description('show a run on the platform, with its metrics')
    .argument('<run>', 'name or id of the run')
    .optionsGroup(groups.output)
    .option('-o, --output <file>', 'also write the JSON to this file')
    .addHelpText('after', example(`osmosis platform ${kind} info my-run --output run.json`))
  onPlatform(info, settings, async (session, { output }, name) =>
    (await loadActions()).showRun(session, kind, name, output),
  )
  const logs = platformCommand(group, 'logs')
    .description('show the log of a run on the platform')
    .argument('<run>', 'name or id of the run')
    .addHelpText('after', example(`osmosis platform ${kind} logs my-run`))
  onPlatform(addLogFlags(logs), settings, async (session, flags, name) => {
    const { runKinds } = await import('../actions/runs/run-record.ts')
    await session.showLogs([runKinds[kind].route, name], flags)
  })
  addChangeCommand(group, kind, 'stop', settings)
}

/** Adds `retry` and `download`, which only evaluation runs have. */
export function addHostedEvalCommands(evals: Command, settings: ProgramSettings): void {
  addHostedRunCommands(evals, 'eval', settings)
  addChangeCommand(evals, 'eval', 'retry', settings)
  const download = platformCommand(evals, 'download')
    .description('download the results of a run on the platform')
    .argument('<run>', 'name or id of the run')
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
    .addHelpText('after', example('osmosis platform eval download my-run --types metrics,logs'))
  addPythonName(download, '--type <types>', '--types')
  onPlatform(download, settings, async (session, flags, name) =>
    (await loadActions()).downloadRun(session, name, flags),
  )
}

/** Adds `stop` or `retry`. */
function addChangeCommand(
  group: Command,
  kind: RunKind,
  action: 'stop' | 'retry',
  settings: ProgramSettings,
): void {
  const command = platformCommand(group, action)
    .description(
      action === 'stop'
        ? 'stop a run on the platform'
        : 'run the failed items of a run on the platform again',
    )
    .argument('<run>', 'name or id of the run')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example(`osmosis platform ${kind} ${action} my-run`))
  onPlatform(command, settings, async (session, { yes }, name) =>
    (await loadActions()).changeRun(session, kind, name, action, yes),
  )
}

/** Repeated here, because `--help` does not load the client of the platform. */
const runFileTypes = [
  'metrics',
  'trajectories',
  'artifacts',
  'logs',
] as const satisfies RunFileType[]

/** Reads a repeatable list of types. */
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
