import { stat } from 'node:fs/promises'
import path from 'node:path'

import { isJsonObject, parseJson } from '@osmosis/core/http'

import { resolvePath, displayPath } from '../../command/command-context.ts'
import { textOf, type JsonObject, type ListRange } from '../client/answers.ts'
import type { PlatformClient } from '../client/platform-client.ts'
import { PlatformError, unexpectedAnswer } from '../client/platform-error.ts'
import { uploadDataset } from '../files/upload-dataset.ts'
import { describe, shown } from '../session/command-output.ts'
import type { PlatformSession } from '../session/platform-session.ts'
import { validateDataset } from './validate-dataset.ts'

/** Checks a file, and uploads it as the dataset of its name. */
export async function uploadFile(
  session: PlatformSession,
  file: string,
  { overwrite, yes }: { overwrite?: true | undefined; yes?: true | undefined },
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

/** Prints the datasets of the workspace. */
export async function listDatasets(session: PlatformSession, range: ListRange): Promise<void> {
  const { client } = await session.scoped()
  const page = await client.list(['datasets'], 'datasets', range)
  session.output.list({ ...page, items: page.items.map(described) }, [
    ['NAME', 'file_name'],
    ['STATUS', 'status'],
    ['ROWS', 'row_count'],
    ['BYTES', 'file_size'],
    ['CREATED', 'created_at'],
    ['ID', 'id'],
  ])
}

/** Prints the record of a dataset. */
export async function showDataset(session: PlatformSession, name: string): Promise<void> {
  const { client } = await session.scoped()
  session.output.detail(described(await client.request(['datasets', name])))
}

/** Prints the first rows of a dataset. */
export async function previewDataset(
  session: PlatformSession,
  name: string,
  requested: number,
): Promise<void> {
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

/** The platform sends a list, its JSON text, or one row per line. */
function allRows(value: unknown): readonly unknown[] | null {
  const given =
    typeof value === 'string' ? (parseJson(value) ?? value.split('\n').filter(Boolean)) : value
  return Array.isArray(given) ? given : null
}

/** Downloads a dataset to a file. */
export async function downloadDataset(
  session: PlatformSession,
  name: string,
  { output: given, overwrite }: { output?: string | undefined; overwrite?: true | undefined },
): Promise<void> {
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
  const answer = await client.request(['datasets', name, 'download'])
  const url = textOf(answer['presigned_url']) ?? textOf(answer['presignedUrl'])
  if (url === undefined) {
    throw unexpectedAnswer('The platform gave no address to download from.')
  }
  // Folders in the name would lead elsewhere, also with separators of Windows.
  const fileName = textOf(answer['file_name']) ?? textOf(answer['fileName'])
  return { url, fileName: fileName?.replaceAll('\\', '/') }
}
