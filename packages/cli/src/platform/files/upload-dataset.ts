import { stat } from 'node:fs/promises'
import path from 'node:path'

import { isJsonObject } from '@osmosis/core/http'

import { objectsOf, textOf, type JsonObject } from '../client/answers.ts'
import type { PlatformClient } from '../client/platform-client.ts'
import { PlatformError, unexpectedAnswer } from '../client/platform-error.ts'
import { retryTransient, type FilePiece, type Storage } from './storage.ts'

/** Options of {@link uploadDataset}. */
interface UploadOptions {
  readonly storage: Storage
  /** Replaces a dataset of the same name. */
  readonly overwrite?: boolean | undefined
  /** Called behind every part. */
  readonly onProgress?: ((sentBytes: number, size: number) => void) | undefined
  readonly signal: AbortSignal
}

const simpleTimeoutMs = 600_000
const partTimeoutMs = 300_000
const completeTimeoutMs = { simple: 30_000, multipart: 120_000 }
const completePauses = [1000, 2000, 4000, 8000]

/**
 * Uploads a file as the dataset of its name, and resolves with the record of the platform. A failed upload is
 * also aborted on the platform.
 *
 * @throws PlatformError with code `CONFLICT` when there is a dataset of this name
 */
export async function uploadDataset(
  client: PlatformClient,
  file: string,
  options: UploadOptions,
): Promise<JsonObject> {
  const { size } = await stat(file)
  const { name, ext } = path.parse(file)
  const extension = ext.slice(1).toLowerCase()
  const dataset = await create(
    client,
    { file_name: name, file_size: size, extension },
    options.overwrite ?? false,
  )
  const id = textOf(dataset['id'])
  const { upload } = dataset
  if (id === undefined || !isJsonObject(upload)) throw malformed('it sent no address to upload to')
  try {
    const parts = await send(file, size, upload, options)
    return await complete(
      client,
      id,
      { file_extension: extension, ...(parts && { parts }) },
      options,
    )
  } catch (error) {
    await client
      .request(['datasets', id, 'abort'], { method: 'POST', body: {}, regardless: true })
      .catch(() => {})
    throw error
  }
}

async function create(
  client: PlatformClient,
  body: JsonObject,
  overwrite: boolean,
): Promise<JsonObject> {
  try {
    return await client.request(['datasets'], { method: 'POST', body })
  } catch (error) {
    if (!overwrite || !(error instanceof PlatformError) || error.status !== 409) throw error
    const existing = textOf(error.details['existing_dataset_id'])
    if (existing === undefined) throw error
    return client.request(['datasets'], {
      method: 'POST',
      body: { ...body, overwrite_dataset_id: existing },
    })
  }
}

/** Resolves with the parts; undefined for an upload in one. */
async function send(
  file: string,
  size: number,
  upload: JsonObject,
  { storage, onProgress }: UploadOptions,
): Promise<JsonObject[] | undefined> {
  if (upload['method'] === 'multipart') {
    const sent: JsonObject[] = []
    for (const { number, url, piece } of partsOf(file, size, upload)) {
      const etag = await storage.put(url, piece, { timeoutMs: partTimeoutMs })
      if (etag === undefined) throw malformed('the storage gave a part no ETag')
      sent.push({ PartNumber: number, ETag: etag })
      onProgress?.(piece.start + piece.size, size)
    }
    return sent
  }
  const url = textOf(upload['presigned_url'])
  if (url === undefined) throw malformed('it gave no address')
  const headers = isJsonObject(upload['upload_headers']) ? upload['upload_headers'] : {}
  const texts = Object.entries(headers).map(([key, value]) => [key, String(value)] as const)
  await storage.put(
    url,
    { file, start: 0, size },
    { headers: Object.fromEntries(texts), timeoutMs: simpleTimeoutMs },
  )
  onProgress?.(size, size)
  return undefined
}

interface Part {
  readonly number: number
  readonly url: string
  readonly piece: FilePiece
}

function partsOf(file: string, size: number, upload: JsonObject): Part[] {
  const { part_size: partSize } = upload
  let start = 0
  const parts = objectsOf(upload['presigned_urls'])
    .map(({ part_number: number, presigned_url: url, size: own }) => ({ number, url, own }))
    .toSorted((a, b) => Number(a.number) - Number(b.number))
    .map(({ number, url, own }) => {
      const most = typeof own === 'number' ? own : partSize
      if (typeof url !== 'string' || typeof number !== 'number' || typeof most !== 'number') {
        throw malformed('a part has no number, address or size')
      }
      const piece = { file, start, size: Math.min(most, size - start) }
      start += piece.size
      return { number, url, piece }
    })
  if (start === size) return parts
  throw malformed(`its parts hold ${start} of ${size} bytes`)
}

async function complete(
  client: PlatformClient,
  id: string,
  body: JsonObject,
  { signal }: UploadOptions,
): Promise<JsonObject> {
  const timeoutMs = completeTimeoutMs['parts' in body ? 'multipart' : 'simple']
  return retryTransient(
    () => client.request(['datasets', id, 'complete'], { method: 'POST', body, timeoutMs }),
    completePauses,
    { signal },
  )
}

function malformed(why: string): PlatformError {
  return unexpectedAnswer(`The platform began an upload, but ${why}.`)
}
