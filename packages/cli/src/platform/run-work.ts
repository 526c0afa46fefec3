import {
  isJsonObject,
  PlatformError,
  type JsonObject,
  type PlatformClient,
} from '@osmosis/platform'

import { shown } from './command-output.ts'
import type { ListFlags, LogFlags } from './list-flags.ts'
import { readList, showLogs } from './read-list.ts'
import type { PlatformSession } from './platform-session.ts'
import type { RunFlags } from './run-commands.ts'
import { runWords, type RunKind } from './run-kind.ts'

export async function listRuns(
  session: PlatformSession,
  kind: RunKind,
  flags: ListFlags,
): Promise<void> {
  const { client } = await session.scoped()
  const { route, list } = runWords[kind]
  session.output.list(await readList(client, [route], list, flags), [
    ['NAME', 'name'],
    ['STATUS', 'status'],
    ['MODEL', 'model_name'],
    ['DATASET', 'dataset_name'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

export async function showRun(
  session: PlatformSession,
  kind: RunKind,
  name: string,
): Promise<void> {
  const { client } = await session.scoped()
  const { route, one } = runWords[kind]
  const answer = await client.request([route, name])
  const run = isJsonObject(answer[one]) ? answer[one] : answer
  const id = shown(run['id']) || name
  const metrics = await ifThere(client, [route, id, 'metrics'])
  const checkpoints =
    kind === 'train'
      ? (await ifThere(client, [route, id, 'checkpoints']))?.['checkpoints']
      : undefined
  session.output.detail({
    ...run,
    ...(metrics && { metrics }),
    ...(checkpoints !== undefined && { checkpoints }),
  })
}

/** A run that has just begun has no metrics yet. */
async function ifThere(
  client: PlatformClient,
  path: readonly string[],
): Promise<JsonObject | undefined> {
  try {
    return await client.request(path)
  } catch (error) {
    if (error instanceof PlatformError && error.platformCode === 'NOT_FOUND') return undefined
    throw error
  }
}

export async function showRunLogs(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  flags: LogFlags,
): Promise<void> {
  const { client } = await session.scoped()
  await showLogs(client, [runWords[kind].route, name], flags, session.output)
}

export async function stopRun(
  session: PlatformSession,
  kind: RunKind,
  name: string,
  { yes }: RunFlags,
): Promise<void> {
  await change(session, { kind, name, yes, action: 'stop', done: 'is stopping' })
}

export async function retryRun(
  session: PlatformSession,
  name: string,
  { yes }: RunFlags,
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
  const resource = agreed
    ? await client.request([runWords[kind].route, name, action], { method: 'POST', body: {} })
    : { name }
  session.output.operation({
    status: agreed ? 'success' : 'cancelled',
    operation: `${kind}.${action}`,
    resource,
    message: agreed ? `The run ${name} ${done}.` : `The run ${name} was left as it is.`,
  })
}
