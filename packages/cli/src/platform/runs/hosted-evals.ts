import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'
import type { RunFile, RunFileType } from '@osmosis/platform'

import { addPythonName, example, groups, type FlagsOf } from '../../command/flags.ts'
import { resolvePath } from '../../command/command-context.ts'
import { addChangeCommand, addHostedRunCommands } from './hosted-runs.ts'
import { waitingStatuses } from './run-kinds.ts'
import { onPlatform, platformCommand, type ProgramSettings } from '../platform-flags.ts'
import type { PlatformSession } from '../platform-session.ts'

/** Repeated here, because `--help` does not load the client of the platform. */
const runFileTypes = [
  'metrics',
  'trajectories',
  'artifacts',
  'logs',
] as const satisfies RunFileType[]

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
    .addHelpText('after', example('osmosis platform eval download my-run --types metrics,logs'))
  addPythonName(command, '--type <types>', '--types')
  return command
}

/** Adds the commands for evaluation runs on the platform to `eval`. */
export function addHostedEvalCommands(evals: Command, settings: ProgramSettings): void {
  addHostedRunCommands(evals, 'eval', {
    settings,
    detailsOf: async (_client, _name, { answer }) =>
      (await import('./run-record.ts')).picked(answer, evalKeys),
  })
  addChangeCommand(evals, 'eval', 'retry', settings)
  onPlatform(declareDownload(evals), settings, downloadRun)
}

const evalKeys = [
  'config',
  'results',
  'model',
  'dataset',
  'rollout',
  'entrypoint',
  'commit_sha',
  'branch',
  'env_config',
  'resolved_secret_scopes',
  'dataset_df_stats',
]

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

/** Larger downloads need a confirmation. */
const largeBytes = 100 * 1024 ** 2

/** Downloads the files of an evaluation run on the platform. */
async function downloadRun(
  session: PlatformSession,
  { types = ['metrics', 'trajectories'], rows, ...flags }: FlagsOf<typeof declareDownload>,
  nameOrId: string,
): Promise<number> {
  const [{ downloadRunFiles, listRunFiles, PlatformError }, { findRun }] = await Promise.all([
    import('@osmosis/platform'),
    import('./run-record.ts'),
  ])
  const { output, signal } = session
  const { client } = await session.scoped()
  const { id, name, status } = await findRun(client, 'eval', nameOrId)
  if (waitingStatuses.includes(status)) {
    const message = `${nameOrId} has nothing to download yet: the run is ${status}.`
    throw new PlatformError('VALIDATION', message, { status: 200 })
  }
  const { files, rejected, totals } = await listRunFiles(client, id, { types, rows })
  const folder = resolvePath(flags.output ?? folderName(name ?? id))
  const resource = {
    eval_run: { id, name: name ?? null },
    status,
    selected_types: types,
    total_files: files.length,
    total_bytes: bytesOf(files),
    breakdown: breakdownOf(files),
    manifest_totals: totals,
    output_path: folder,
    rows: rows ?? null,
  }
  const end = (ended: string, message: string, more: Record<string, unknown> = {}): void =>
    output.operation({
      status: ended,
      operation: 'eval.download',
      resource: { ...resource, ...more },
      message,
    })
  const agreed =
    resource.total_bytes <= largeBytes ||
    (await session.confirm(
      { prompt: `Download ${Math.ceil(resource.total_bytes / 1024 ** 2)} MiB?`, defaultYes: true },
      flags.yes,
    ))
  if (!agreed) {
    end('cancelled', 'Nothing was downloaded.')
    return 0
  }
  const overwrite = flags.overwrite ?? false
  const { downloaded, skipped, failed } = await session.withStorage((storage) =>
    downloadRunFiles(client, id, { files, folder, overwrite, storage, signal }),
  )
  const missing = [...rejected, ...failed]
  for (const { path: file, error } of missing) output.note(`${file}: ${error}`)
  const there = skipped === 0 ? '' : ` ${skipped} already existed.`
  const left = missing.length === 0 ? '' : ` ${missing.length} were not downloaded.`
  end(
    missing.length === 0 ? 'success' : 'partial',
    `Downloaded ${downloaded.length} files to ${folder}.${there}${left}`,
    {
      files_downloaded: downloaded.length,
      files_skipped: skipped,
      files_failed: missing,
      bytes_downloaded: bytesOf(downloaded),
    },
  )
  return missing.length === 0 ? 0 : 1
}

function bytesOf(files: readonly RunFile[]): number {
  return files.reduce((sum, { size }) => sum + size, 0)
}

function breakdownOf(files: readonly RunFile[]): Record<string, { files: number; bytes: number }> {
  const types = [...new Set(files.map(({ type }) => type))]
  return Object.fromEntries(
    types.map((type) => {
      const ofType = files.filter((file) => file.type === type)
      return [type, { files: ofType.length, bytes: bytesOf(ofType) }]
    }),
  )
}

/** The name of a run as the name of one folder. */
function folderName(run: string): string {
  const name = run.replaceAll(/[^\w.-]+/g, '-')
  return /^\.*$/.test(name) ? 'run' : name
}
