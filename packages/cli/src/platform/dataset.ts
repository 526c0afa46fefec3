import { isJsonObject } from '@osmosis/core/http'
import { stat } from 'node:fs/promises'
import path from 'node:path'

import type { Command } from '@commander-js/extra-typings'
import type { JsonObject, PlatformClient } from '@osmosis/platform'

import { countFrom, example, groups, type FlagsOf } from '../command/flags.ts'
import { resolvePath, displayPath, workingFolder } from '../command/command-context.ts'
import { readEnvironment } from '../command/environment.ts'
import {
  addListFlags,
  addLogFlags,
  onPlatform,
  platformCommand,
  type ListFlags,
  type ProgramSettings,
} from './platform-flags.ts'
import type { PlatformSession } from './platform-session.ts'

function declareValidate(datasets: Command) {
  return platformCommand(datasets, 'validate')
    .description('check a file before uploading it, without calling the platform')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .optionsGroup(groups.inputs)
    .option('--entrypoint <module>', 'also check all rows by the schemas of this workflow')
    .addHelpText('after', example('osmosis dataset validate data/prices.jsonl'))
}

function declareUpload(datasets: Command) {
  return platformCommand(datasets, 'upload')
    .description('upload a file as the dataset of its name')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .optionsGroup(groups.output)
    .option('--overwrite', 'replace an existing dataset')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis platform dataset upload data/prices.jsonl'))
}

function declarePreview(datasets: Command) {
  return platformCommand(datasets, 'preview')
    .description('show the first rows of a dataset')
    .argument('<dataset>', 'its name or id')
    .optionsGroup(groups.limits)
    .option('--rows <count>', 'number of rows', countFrom(1), 5)
    .addHelpText('after', example('osmosis platform dataset preview prices --rows 3'))
}

function declareDownload(datasets: Command) {
  return platformCommand(datasets, 'download')
    .description('download a dataset')
    .argument('<dataset>', 'its name or id')
    .optionsGroup(groups.output)
    .option(
      '-o, --output <file>',
      'file or existing folder to write to (default: a file of its name in the working folder)',
    )
    .option('--overwrite', 'replace an existing file')
    .addHelpText('after', example('osmosis platform dataset download prices -o data/prices.jsonl'))
}

/** Adds `validate`, which does not call the platform. */
export function addValidateDatasetCommand(datasets: Command, settings: ProgramSettings): void {
  onPlatform(declareValidate(datasets), settings, validateFile)
}

/** Adds the commands for datasets of the platform. */
export function addHostedDatasetCommands(datasets: Command, settings: ProgramSettings): void {
  onPlatform(declareUpload(datasets), settings, uploadFile)
  const list = platformCommand(datasets, 'list')
    .description('list the datasets of the workspace')
    .addHelpText('after', example('osmosis platform dataset list --all'))
  onPlatform(addListFlags(list), settings, listDatasets)
  const info = platformCommand(datasets, 'info')
    .description('show a dataset on the platform')
    .argument('<dataset>', 'its name or id')
    .addHelpText('after', example('osmosis platform dataset info prices'))
  onPlatform(info, settings, showDataset)
  onPlatform(declarePreview(datasets), settings, previewDataset)
  onPlatform(declareDownload(datasets), settings, downloadFile)
  const logs = platformCommand(datasets, 'logs')
    .description('show the log of a dataset on the platform')
    .argument('<dataset>', 'its name or id')
    .addHelpText('after', example('osmosis platform dataset logs prices'))
  onPlatform(addLogFlags(logs), settings, async (session, flags, name) =>
    session.showLogs(['datasets', name], flags),
  )
}

async function validateFile(
  { output, signal }: PlatformSession,
  { entrypoint }: FlagsOf<typeof declareValidate>,
  file: string,
): Promise<number> {
  const [{ datasetFit }, { validateDataset }] = await Promise.all([
    import('../child/entrypoint-process.ts'),
    import('./validate-dataset.ts'),
  ])
  const verdict = await validateDataset(
    file,
    entrypoint === undefined
      ? undefined
      : (rows) =>
          datasetFit(entrypoint, rows, {
            folder: workingFolder(),
            environment: readEnvironment(),
            signal,
          }),
  )
  const { valid, errors, warnings } = verdict
  output.detail({ ...verdict }, [
    valid ? `${file} is a valid dataset.` : `${file} is not a valid dataset:`,
    ...errors.map((error) => `- ${error}`),
    ...warnings.map((warning) => `warning: ${warning}`),
  ])
  return valid ? 0 : 1
}

async function uploadFile(
  session: PlatformSession,
  { overwrite, yes }: FlagsOf<typeof declareUpload>,
  file: string,
): Promise<void> {
  const { PlatformError, textOf, uploadDataset } = await import('@osmosis/platform')
  const { validateDataset } = await import('./validate-dataset.ts')
  const { output, signal } = session
  const { client } = await session.scoped()
  const verdict = await validateDataset(file)
  if (!verdict.valid) {
    throw new PlatformError('VALIDATION', `${file} is not a valid dataset.`, {
      details: { issues: verdict.errors },
    })
  }
  const { name } = path.parse(file)
  const question = { prompt: `Replace the dataset ${name}, if there is one?` }
  const agreed = !overwrite || (await session.confirm(question, yes))
  if (!agreed) {
    const message = 'Nothing was uploaded.'
    output.operation({ status: 'cancelled', operation: 'dataset.upload', message })
    return
  }
  const onProgress = (sent: number, size: number): void =>
    output.note(`Sent ${sent} of ${size} bytes.`)
  const dataset = await session.withStorage((storage) =>
    uploadDataset(client, displayPath(file), { storage, overwrite, signal, onProgress }),
  )
  const resource = described(dataset)
  const page = textOf(resource['platform_url'])
  output.operation({
    status: 'success',
    operation: 'dataset.upload',
    resource,
    message: `Uploaded ${name}; the platform processes it now.${page === undefined ? '' : `\nView: ${page}`}`,
    nextSteps: [{ action: 'dataset_info', command: `osmosis platform dataset info ${name}` }],
  })
}

/** The record of a dataset, without its rows and upload addresses. */
function described(dataset: JsonObject): JsonObject {
  const { upload: _upload, data_preview: _preview, ...rest } = dataset
  return rest
}

async function listDatasets(session: PlatformSession, flags: ListFlags): Promise<void> {
  const { client } = await session.scoped()
  const page = await session.readList(client, ['datasets'], 'datasets', flags)
  session.output.list({ ...page, items: page.items.map(described) }, [
    ['NAME', 'file_name'],
    ['STATUS', 'status'],
    ['ROWS', 'row_count'],
    ['BYTES', 'file_size'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

async function showDataset(session: PlatformSession, _flags: object, name: string): Promise<void> {
  const { client } = await session.scoped()
  session.output.detail(described(await client.request(['datasets', name])))
}

async function previewDataset(
  session: PlatformSession,
  { rows: requested }: FlagsOf<typeof declarePreview>,
  name: string,
): Promise<void> {
  const { describe, shown } = await import('./command-output.ts')
  const { client } = await session.scoped()
  const dataset = await client.request(['datasets', name])
  const rows = allRows(dataset['data_preview'])?.slice(0, requested) ?? null
  const none = `No preview of ${name} is available (${shown(dataset['status'])}).`
  session.output.detail(
    {
      dataset: described(dataset),
      rows,
      requested_rows: requested,
      returned_rows: rows?.length ?? 0,
      available: rows !== null,
      ...(rows === null && { message: none }),
    },
    rows === null
      ? [none]
      : rows.flatMap((row) => (isJsonObject(row) ? [...describe(row), ''] : [shown(row)])),
  )
}

/** The platform sends a list, or its JSON text. */
function allRows(value: unknown): readonly unknown[] | null {
  const given = typeof value === 'string' ? parse(value) : value
  return Array.isArray(given) ? given : null
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text.split('\n').filter((line) => line !== '')
  }
}

async function downloadFile(
  session: PlatformSession,
  { output: given, overwrite }: FlagsOf<typeof declareDownload>,
  name: string,
): Promise<void> {
  const [{ PlatformError }, { shown }] = await Promise.all([
    import('@osmosis/platform'),
    import('./command-output.ts'),
  ])
  const { client } = await session.scoped()
  const dataset = await client.request(['datasets', name])
  const { status, file_name: datasetName } = dataset
  if (status !== 'uploaded') {
    throw new PlatformError(
      'VALIDATION',
      `${name} cannot be downloaded, because its status is ${shown(status)}, not uploaded.`,
      { status: 200 },
    )
  }
  const { url, fileName } = await downloadAddress(client, name)
  const own = path.basename(fileName ?? shown(datasetName)) || 'dataset'
  const isFolder = (await stat(resolvePath(given ?? '.')).catch(() => undefined))?.isDirectory()
  const file = isFolder ? path.join(given ?? '', own) : (given ?? own)
  if (!overwrite && (await stat(resolvePath(file)).catch(() => undefined)) !== undefined) {
    throw new PlatformError('CONFLICT', `${file} already exists: pass --overwrite, or --output.`)
  }
  await session.withStorage((storage) => storage.download(url, displayPath(file)))
  session.output.operation({
    status: 'success',
    operation: 'dataset.download',
    resource: { ...described(dataset), output_path: resolvePath(file) },
    message: `Downloaded to ${file}.`,
  })
}

async function downloadAddress(
  client: PlatformClient,
  name: string,
): Promise<{ url: string; fileName: string | undefined }> {
  const { PlatformError, textOf } = await import('@osmosis/platform')
  const answer = await client.request(['datasets', name, 'download'])
  const url = textOf(answer['presigned_url']) ?? textOf(answer['presignedUrl'])
  if (url === undefined) {
    throw new PlatformError('PLATFORM_ERROR', 'The platform gave no address to download from.', {
      status: 200,
    })
  }
  // Folders in the name would lead elsewhere, also with separators of Windows.
  const fileName = textOf(answer['file_name']) ?? textOf(answer['fileName'])
  return { url, fileName: fileName?.replaceAll('\\', '/') }
}
