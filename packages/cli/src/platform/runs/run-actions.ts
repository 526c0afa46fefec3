import { writeFile } from 'node:fs/promises'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { PlatformError, objectsOf, type JsonObject, type PlatformClient } from '@osmosis/platform'

import { describe } from '../command-output.ts'
import type { ListFlags, RunLogFlags } from '../platform-flags.ts'
import { readList, showLogs } from '../read-list.ts'
import type { PlatformSession } from '../platform-session.ts'
import type { InfoFlags, ChangeFlags } from './run-commands.ts'
import {
  runWords,
  type RunKind,
  findRun,
  picked,
  runRecord,
  type FoundHostedRun,
} from './run-record.ts'
import { fromHere } from '../../command/surroundings.ts'

export async function listRuns(
  session: PlatformSession,
  kind: RunKind,
  flags: ListFlags,
): Promise<void> {
  const { client } = await session.scoped()
  const { route, list } = runWords[kind]
  const page = await readList(client, [route], list, flags)
  session.output.list({ ...page, items: page.items.map((item) => runRecord(kind, item)) }, [
    ['NAME', 'name'],
    ['STATUS', 'status'],
    ['MODEL', kind === 'eval' ? 'model' : 'model_name'],
    ['DATASET', kind === 'eval' ? 'dataset' : 'dataset_name'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

/** Runs that have not begun have no metrics, and nothing to download. */
export const waitingStatuses: readonly string[] = ['pending', 'queued']
const goingOn: readonly string[] = [...waitingStatuses, 'running']

export async function showRun(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  { output: file }: InfoFlags,
): Promise<void> {
  const { client } = await session.scoped()
  const { one } = runWords[kind]
  const run = await findRun(client, kind, name)
  const { metrics, error } = await metricsOf(client, kind, run)
  const measured = { metrics, metrics_available: metrics !== null, metrics_error: error }
  const aboutRun =
    kind === 'eval'
      ? picked(run.answer, evalKeys)
      : {
          checkpoints: await checkpointsOf(client, name, run),
          in_progress: !waitingStatuses.includes(run.status) && goingOn.includes(run.status),
        }
  const data = { [one]: run.record, ...aboutRun, ...measured }
  if (file !== undefined) await writeOutput(file, session.output.detailText(data))
  session.output.detail(data, [
    ...describe({ ...aboutRun, ...run.record, ...(metrics && { metrics }) }),
    ...(error === null ? [] : [error]),
  ])
}

async function writeOutput(file: string, text: string): Promise<void> {
  try {
    await writeFile(fromHere(file), text)
  } catch (error) {
    const message = `Cannot write the result to ${file}: ${errorMessage(error)}`
    throw new OsmosisError('invalid_config', message)
  }
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

async function metricsOf(
  client: PlatformClient,
  kind: RunKind,
  { id, status }: FoundHostedRun,
): Promise<{ metrics: JsonObject | null; error: string | null }> {
  if (waitingStatuses.includes(status)) {
    return { metrics: null, error: 'There are no metrics yet: the run has not started.' }
  }
  try {
    return { metrics: await client.request([runWords[kind].route, id, 'metrics']), error: null }
  } catch (error) {
    return { metrics: null, error: unlessLoggedOut(error).message }
  }
}

/** Those of a run that has ended; they are asked for by the name that was given. */
async function checkpointsOf(
  client: PlatformClient,
  name: string,
  { status }: FoundHostedRun,
): Promise<readonly JsonObject[]> {
  if (goingOn.includes(status)) return []
  try {
    const answer = await client.request([runWords.train.route, name, 'checkpoints'])
    return objectsOf(answer['checkpoints'])
  } catch (error) {
    unlessLoggedOut(error)
    return []
  }
}

/** What is known of a run is shown although a part of it does not come. */
function unlessLoggedOut(error: unknown): PlatformError {
  if (error instanceof PlatformError && error.platformCode !== 'AUTH_REQUIRED') return error
  throw error
}

export async function showRunLogs(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  flags: RunLogFlags,
): Promise<void> {
  const { client } = await session.scoped()
  await showLogs(client, [runWords[kind].route, name], flags, session.output)
}

export async function stopRun(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  { yes }: ChangeFlags,
): Promise<void> {
  await change(session, { kind, name, yes, action: 'stop', done: 'is stopping' })
}

export async function retryRun(
  session: PlatformSession,
  name: string,
  { yes }: ChangeFlags,
): Promise<void> {
  await change(session, { kind: 'eval', name, yes, action: 'retry', done: 'runs again' })
}

async function change(
  session: PlatformSession,
  options: {
    kind: RunKind
    name: string
    yes: boolean | undefined
    action: 'stop' | 'retry'
    done: string
  },
): Promise<void> {
  const { kind, name, yes, action, done } = options
  const { client } = await session.scoped()
  const verb = action === 'stop' ? 'Stop' : 'Retry'
  const agreed = await session.confirm({ prompt: `${verb} the run ${name}?` }, yes)
  const answer = agreed
    ? await client.request([runWords[kind].route, name, action], { method: 'POST', body: {} })
    : {}
  session.output.operation({
    status: agreed ? 'success' : 'cancelled',
    operation: `${kind}.${action}`,
    resource: { name, ...answer },
    message: agreed ? `The run ${name} ${done}.` : `The run ${name} was left as it is.`,
  })
}
