import { stat } from 'node:fs/promises'
import path from 'node:path'

import {
  PlatformError,
  Storage,
  textOf,
  uploadDataset,
  type JsonObject,
  type PlatformClient,
} from '@osmosis/platform'

import { readEnvironment } from '../../inputs/environment.ts'
import { datasetFit } from '../../inputs/entrypoint-process.ts'
import { describe, shown } from '../command-output.ts'
import type { DownloadFlags, PreviewFlags, UploadFlags, ValidateFlags } from './dataset.ts'
import type { ListFlags, RunLogFlags } from '../platform-flags.ts'
import { readList, showLogs } from '../read-list.ts'
import type { PlatformSession } from '../platform-session.ts'
import { validateDataset, type DatasetVerdict } from './validate-dataset.ts'
import { fromHere, namedHere, workingFolder } from '../../command/surroundings.ts'

export async function validate(
  { output, signal }: PlatformSession,
  file: string,
  { entrypoint }: ValidateFlags,
): Promise<number> {
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
  output.detail({ ...verdict }, verdictLines(verdict))
  return verdict.valid ? 0 : 1
}

function verdictLines({ valid, file, errors, warnings }: DatasetVerdict): string[] {
  return [
    valid ? `${file} is a valid dataset.` : `${file} is not a valid dataset:`,
    ...errors.map((error) => `- ${error}`),
    ...warnings.map((warning) => `warning: ${warning}`),
  ]
}

export async function upload(
  session: PlatformSession,
  file: string,
  { overwrite, yes }: UploadFlags,
): Promise<void> {
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
  const storage = new Storage({ signal })
  try {
    const dataset = await uploadDataset(client, namedHere(file), {
      storage,
      overwrite,
      signal,
      onProgress: (sent, size) => output.note(`Sent ${sent} of ${size} bytes.`),
    })
    const resource = described(dataset)
    const page = textOf(resource['platform_url'])
    output.operation({
      status: 'success',
      operation: 'dataset.upload',
      resource,
      message: `Uploaded ${name}; the platform processes it now.${page === undefined ? '' : `\nView: ${page}`}`,
      nextSteps: [{ action: 'dataset_info', command: `osmosis dataset info ${name}` }],
    })
  } finally {
    await storage.close()
  }
}

/** What is known of a dataset, without its rows and where they are sent. */
function described(dataset: JsonObject): JsonObject {
  const { upload: _upload, data_preview: _preview, ...rest } = dataset
  return rest
}

export async function list(session: PlatformSession, flags: ListFlags): Promise<void> {
  const { client } = await session.scoped()
  const page = await readList(client, ['datasets'], 'datasets', flags)
  session.output.list({ ...page, items: page.items.map(described) }, [
    ['NAME', 'file_name'],
    ['STATUS', 'status'],
    ['ROWS', 'row_count'],
    ['BYTES', 'file_size'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

export async function info(session: PlatformSession, name: string): Promise<void> {
  const { client } = await session.scoped()
  session.output.detail(described(await client.request(['datasets', name])))
}

export async function preview(
  session: PlatformSession,
  name: string,
  { rows: requested }: PreviewFlags,
): Promise<void> {
  const { client } = await session.scoped()
  const dataset = await client.request(['datasets', name])
  const rows = allRows(dataset['data_preview'])?.slice(0, requested) ?? null
  const none = `There is no preview of ${name} (${shown(dataset['status'])}).`
  session.output.detail(
    {
      dataset: described(dataset),
      rows,
      requested_rows: requested,
      returned_rows: rows?.length ?? 0,
      available: rows !== null,
      ...(rows === null && { message: none }),
    },
    rows === null ? [none] : previewLines(rows),
  )
}

/** The platform gives a list, or its JSON text. */
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

function previewLines(rows: readonly unknown[]): string[] {
  return rows.flatMap((row) =>
    typeof row === 'object' && row !== null ? [...describe(row as JsonObject), ''] : [shown(row)],
  )
}

export async function download(
  session: PlatformSession,
  name: string,
  { output: given, overwrite }: DownloadFlags,
): Promise<void> {
  const { client } = await session.scoped()
  const dataset = await client.request(['datasets', name])
  const { status, file_name: datasetName } = dataset
  if (status !== 'uploaded') {
    throw new PlatformError(
      'VALIDATION',
      `${name} cannot be downloaded while it is ${shown(status)}: it has to be uploaded.`,
      { status: 200 },
    )
  }
  const { url, fileName } = await downloadAddress(client, name)
  const own = path.basename(fileName ?? shown(datasetName)) || 'dataset'
  const isFolder = (await stat(fromHere(given ?? '.')).catch(() => undefined))?.isDirectory()
  const file = isFolder ? path.join(given ?? '', own) : (given ?? own)
  if (!overwrite && (await stat(fromHere(file)).catch(() => undefined)) !== undefined) {
    throw new PlatformError('CONFLICT', `${file} is there already: pass --overwrite, or --output.`)
  }
  const storage = new Storage({ signal: session.signal })
  try {
    await storage.download(url, namedHere(file))
  } finally {
    await storage.close()
  }
  session.output.operation({
    status: 'success',
    operation: 'dataset.download',
    resource: { ...described(dataset), output_path: fromHere(file) },
    message: `Downloaded to ${file}.`,
  })
}

async function downloadAddress(
  client: PlatformClient,
  name: string,
): Promise<{ url: string; fileName: string | undefined }> {
  const answer = await client.request(['datasets', name, 'download'])
  const url = textOf(answer['presigned_url']) ?? textOf(answer['presignedUrl'])
  if (url === undefined) {
    throw new PlatformError('PLATFORM_ERROR', 'The platform gave no address to download from.', {
      status: 200,
    })
  }
  // Names of folders in it would lead elsewhere, also those of another system.
  const fileName = textOf(answer['file_name']) ?? textOf(answer['fileName'])
  return { url, fileName: fileName?.replaceAll('\\', '/') }
}

export async function logs(
  session: PlatformSession,
  name: string,
  flags: RunLogFlags,
): Promise<void> {
  const { client } = await session.scoped()
  await showLogs(client, ['datasets', name], flags, session.output)
}
