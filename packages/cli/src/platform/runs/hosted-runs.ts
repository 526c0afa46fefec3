import { invalid } from '../../command/exit-codes.ts'
import { writeFile } from 'node:fs/promises'

import type { Command } from '@commander-js/extra-typings'
import { errorMessage } from '@osmosis/core'
import type { JsonObject, PlatformClient, PlatformError } from '@osmosis/platform'

import { example, groups } from '../../command/flags.ts'
import { resolvePath } from '../../command/command-context.ts'
import {
  addListFlags,
  addLogFlags,
  onPlatform,
  platformCommand,
  type ListFlags,
  type ProgramSettings,
} from '../platform-flags.ts'
import { runKinds, waitingStatuses, type FoundHostedRun, type RunKind } from './run-kinds.ts'
import type { PlatformSession } from '../platform-session.ts'

/** What `info` shows of one kind of runs. */
type RunDetails = (client: PlatformClient, name: string, run: FoundHostedRun) => Promise<JsonObject>

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

function declareInfo(group: Command, kind: RunKind) {
  return platformCommand(group, 'info')
    .description('show a run on the platform, with its metrics')
    .argument('<run>', 'its name or id')
    .optionsGroup(groups.output)
    .option('-o, --output <file>', 'also write the JSON to this file')
    .addHelpText('after', example(`osmosis platform ${kind} info my-run --output run.json`))
}

/** Adds `stop` or `retry`. */
export function addChangeCommand(
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
    .argument('<run>', 'its name or id')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example(`osmosis platform ${kind} ${action} my-run`))
  onPlatform(command, settings, async (session, { yes }, name) =>
    changeRun(session, name, { kind, yes, action }),
  )
}

/**
 * Adds the commands that hosted runs of both kinds have.
 *
 * @param detailsOf - what `info` shows of a run of this kind besides its record and metrics
 */
export function addHostedRunCommands(
  group: Command,
  kind: RunKind,
  { settings, detailsOf }: { settings: ProgramSettings; detailsOf: RunDetails },
): void {
  onPlatform(declareSubmit(group, kind), settings, async (session, flags, config) => {
    const { submitCommand } = await import('./submit-run.ts')
    await submitCommand(session, kind, config, flags)
  })
  const list = platformCommand(group, 'list')
    .description('list the runs on the platform')
    .addHelpText('after', example(`osmosis platform ${kind} list --limit 10`))
  onPlatform(addListFlags(list), settings, async (session, flags) => listRuns(session, kind, flags))
  onPlatform(declareInfo(group, kind), settings, async (session, flags, name) =>
    showRun(session, name, { kind, detailsOf, file: flags.output }),
  )
  const logs = platformCommand(group, 'logs')
    .description('show the log of a run on the platform')
    .argument('<run>', 'its name or id')
    .addHelpText('after', example(`osmosis platform ${kind} logs my-run`))
  onPlatform(addLogFlags(logs), settings, async (session, flags, name) =>
    session.showLogs([runKinds[kind].route, name], flags),
  )
  addChangeCommand(group, kind, 'stop', settings)
}

async function listRuns(session: PlatformSession, kind: RunKind, flags: ListFlags): Promise<void> {
  const { runRecord } = await import('./run-record.ts')
  const { client } = await session.scoped().catch(async (error: unknown) => {
    const { PlatformError } = await import('@osmosis/platform')
    if (!(error instanceof PlatformError) || error.platformCode !== 'AUTH_REQUIRED') throw error
    const message = `${error.message} \`osmosis eval runs\` lists the runs of this machine.`
    throw new PlatformError('AUTH_REQUIRED', message, { cause: error })
  })
  const { route, list } = runKinds[kind]
  const page = await session.readList(client, [route], list, flags)
  session.output.list({ ...page, items: page.items.map((item) => runRecord(kind, item)) }, [
    ['NAME', 'name'],
    ['STATUS', 'status'],
    ['MODEL', kind === 'eval' ? 'model' : 'model_name'],
    ['DATASET', kind === 'eval' ? 'dataset' : 'dataset_name'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

async function showRun(
  session: PlatformSession,
  name: string,
  { kind, detailsOf, file }: { kind: RunKind; detailsOf: RunDetails; file: string | undefined },
): Promise<void> {
  const [{ describe }, { findRun }] = await Promise.all([
    import('../command-output.ts'),
    import('./run-record.ts'),
  ])
  const { client } = await session.scoped()
  const { one } = runKinds[kind]
  const run = await findRun(client, kind, name)
  const { metrics, error } = await metricsOf(client, kind, run)
  const measured = { metrics, metrics_available: metrics !== null, metrics_error: error }
  const details = await detailsOf(client, name, run)
  const data = { [one]: run.record, ...details, ...measured }
  if (file !== undefined) await writeOutput(file, session.output.detailText(data))
  session.output.detail(data, [
    ...describe({ ...details, ...run.record, ...(metrics && { metrics }) }),
    ...(error === null ? [] : [error]),
  ])
}

async function writeOutput(file: string, text: string): Promise<void> {
  try {
    await writeFile(resolvePath(file), text)
  } catch (error) {
    const message = `Cannot write the result to ${file}: ${errorMessage(error)}`
    throw invalid(message)
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
    return { metrics: null, error: (await unlessLoggedOut(error)).message }
  }
}

/** Ignores the failure to read a part of a run, unless the login is invalid. */
export async function unlessLoggedOut(error: unknown): Promise<PlatformError> {
  const { PlatformError } = await import('@osmosis/platform')
  if (error instanceof PlatformError && error.platformCode !== 'AUTH_REQUIRED') return error
  throw error
}

async function changeRun(
  session: PlatformSession,
  name: string,
  change: { kind: RunKind; yes: boolean | undefined; action: 'stop' | 'retry' },
): Promise<void> {
  const { kind, yes, action } = change
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
