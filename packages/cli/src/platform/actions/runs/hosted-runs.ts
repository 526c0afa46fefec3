import { writeFile } from 'node:fs/promises'

import { errorMessage } from '@osmosis/core'

import { resolvePath } from '../../../command/command-context.ts'
import { invalid } from '../../../command/wrong-use.ts'
import { objectsOf, type JsonObject, type ListRange } from '../../client/answers.ts'
import type { PlatformClient } from '../../client/platform-client.ts'
import { PlatformError } from '../../client/platform-error.ts'
import {
  downloadRunFiles,
  listRunFiles,
  type RunFile,
  type RunFileType,
} from '../../files/run-files.ts'
import { describe } from '../../session/command-output.ts'
import type { PlatformSession } from '../../session/platform-session.ts'
import {
  findRun,
  picked,
  runKinds,
  runRecord,
  waitingStatuses,
  type FoundHostedRun,
  type RunKind,
} from './run-record.ts'

/** Prints the runs of the workspace. */
export async function listRuns(
  session: PlatformSession,
  kind: RunKind,
  range: ListRange,
): Promise<void> {
  const { client } = await session.scoped().catch((error: unknown) => {
    if (!(error instanceof PlatformError) || error.platformCode !== 'AUTH_REQUIRED') throw error
    const message = `${error.message} \`osmosis eval runs\` lists the runs of this machine.`
    throw new PlatformError('AUTH_REQUIRED', message, { cause: error })
  })
  const { route, list } = runKinds[kind]
  const page = await client.list([route], list, range)
  session.output.list({ ...page, items: page.items.map((item) => runRecord(kind, item)) }, [
    ['NAME', 'name'],
    ['STATUS', 'status'],
    ['MODEL', kind === 'eval' ? 'model' : 'model_name'],
    ['DATASET', kind === 'eval' ? 'dataset' : 'dataset_name'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

/** Prints a run with its metrics, and also writes the JSON to a file. */
export async function showRun(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  file: string | undefined,
): Promise<void> {
  const { client } = await session.scoped()
  const { one } = runKinds[kind]
  const run = await findRun(client, kind, name)
  const { metrics, error } = await metricsOf(client, kind, run)
  const measured = { metrics, metrics_available: metrics !== null, metrics_error: error }
  const details =
    kind === 'eval' ? picked(run.answer, evalKeys) : await trainingDetails(client, name, run)
  const data = { [one]: run.record, ...details, ...measured }
  if (file !== undefined) await writeOutput(file, session.output.detailText(data))
  session.output.detail(data, [
    ...describe({ ...details, ...run.record, ...(metrics && { metrics }) }),
    ...(error === null ? [] : [error]),
  ])
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

const unfinishedStatuses: readonly string[] = [...waitingStatuses, 'running']

async function trainingDetails(
  client: PlatformClient,
  name: string,
  { status }: FoundHostedRun,
): Promise<JsonObject> {
  const checkpoints = unfinishedStatuses.includes(status) ? [] : await checkpointsOf(client, name)
  return { checkpoints, in_progress: status === 'running' }
}

async function checkpointsOf(client: PlatformClient, name: string): Promise<readonly JsonObject[]> {
  try {
    const answer = await client.request([runKinds.train.route, name, 'checkpoints'])
    return objectsOf(answer['checkpoints'])
  } catch (error) {
    unlessLoggedOut(error)
    return []
  }
}

async function writeOutput(file: string, text: string): Promise<void> {
  try {
    await writeFile(resolvePath(file), text)
  } catch (error) {
    throw invalid(`Cannot write the result to ${file}: ${errorMessage(error)}`)
  }
}

async function metricsOf(
  client: PlatformClient,
  kind: RunKind,
  { id, status }: FoundHostedRun,
): Promise<{ metrics: JsonObject | null; error: string | null }> {
  if (waitingStatuses.includes(status)) {
    return { metrics: null, error: 'No metrics are available yet: the run has not started.' }
  }
  try {
    return { metrics: await client.request([runKinds[kind].route, id, 'metrics']), error: null }
  } catch (error) {
    return { metrics: null, error: unlessLoggedOut(error).message }
  }
}

/** Ignores the failure to read a part of a run, unless the login is invalid. */
function unlessLoggedOut(error: unknown): PlatformError {
  if (error instanceof PlatformError && error.platformCode !== 'AUTH_REQUIRED') return error
  throw error
}

/** Stops a run, or runs its failed items again. */
export async function changeRun(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  action: 'stop' | 'retry',
  yes: boolean | undefined,
): Promise<void> {
  const { client } = await session.scoped()
  const verb = action === 'stop' ? 'Stop' : 'Retry'
  const agreed = await session.confirm({ prompt: `${verb} the run ${name}?` }, yes)
  const answer = agreed
    ? await client.request([runKinds[kind].route, name, action], { method: 'POST', body: {} })
    : {}
  const done = action === 'stop' ? 'is stopping' : 'runs again'
  session.output.operation({
    status: agreed ? 'success' : 'cancelled',
    operation: `${kind}.${action}`,
    resource: { name, ...answer },
    message: agreed ? `The run ${name} ${done}.` : `The run ${name} was left as it is.`,
  })
}

/** Which files of a run are downloaded, and where to. */
interface RunDownload {
  readonly types?: readonly RunFileType[] | undefined
  readonly rows?: string | undefined
  readonly output?: string | undefined
  readonly overwrite?: true | undefined
  readonly yes?: true | undefined
}

/** Larger downloads need a confirmation. */
const largeBytes = 100 * 1024 ** 2

/** Downloads the files of an evaluation run on the platform. */
export async function downloadRun(
  session: PlatformSession,
  nameOrId: string,
  { types = ['metrics', 'trajectories'], rows, ...flags }: RunDownload,
): Promise<number> {
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
