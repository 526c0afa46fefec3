import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { isJsonObject, wait } from '@osmosis/core/http'

import { objectsOf, textOf, type JsonObject } from '../client/answers.ts'
import type { PlatformClient } from '../client/platform-client.ts'
import { PlatformError, unexpectedAnswer } from '../client/platform-error.ts'
import type { Storage } from './storage.ts'

/** A file of an evaluation run on the platform. */
export interface RunFile {
  /** Relative, with slashes; safe to be written below a folder. */
  readonly path: string
  /** Bytes. */
  readonly size: number
  readonly type: RunFileType
  readonly token: string | undefined
}

/** A file that could not be downloaded, and why. */
interface FailedFile {
  readonly path: string
  readonly error: string
}

/** Types of files of an evaluation run. */
export type RunFileType = 'metrics' | 'trajectories' | 'artifacts' | 'logs'

const files: Readonly<Record<string, RunFileType>> = {
  'metrics.json': 'metrics',
  'logs.txt': 'logs',
  'summary.jsonl': 'trajectories',
}
const folders: Readonly<Record<string, RunFileType>> = {
  trajectories: 'trajectories',
  artifacts: 'artifacts',
}

/** The files of an evaluation run, as the platform lists them. */
interface RunFiles {
  /** Files of the requested types. */
  readonly files: readonly RunFile[]
  /** Files of other types that the platform lists; they are not written. */
  readonly rejected: readonly FailedFile[]
  /** Totals of the platform for all files. */
  readonly totals: JsonObject
}

/**
 * Lists the files of an evaluation run.
 *
 * @param run - its id
 * @throws PlatformError with code `PLATFORM_ERROR` when the platform names a file outside of
 * the run
 */
export async function listRunFiles(
  client: PlatformClient,
  run: string,
  { types, rows }: { readonly types: readonly RunFileType[]; readonly rows?: string | undefined },
): Promise<RunFiles> {
  const query = { types: types.join(','), rows }
  const manifest = await client.request(['eval-runs', run, 'samples', 'manifest'], { query })
  const listed = objectsOf(manifest['files']).map(toRunFile)
  return {
    files: listed.filter(({ type }) => types.includes(type)),
    rejected: listed
      .filter(({ type }) => !types.includes(type))
      .map(({ path: name, type }) => ({ path: name, error: `${type} was not requested` })),
    totals: isJsonObject(manifest['totals']) ? manifest['totals'] : {},
  }
}

function toRunFile({ path: name, size, token }: JsonObject): RunFile {
  const type = typeof name === 'string' ? typeOf(name) : undefined
  if (typeof name === 'string' && typeof size === 'number' && type !== undefined) {
    return { path: name, size, type, token: textOf(token) }
  }
  throw unexpectedAnswer(
    `The platform named a file that a run does not have: ${JSON.stringify(name)}`,
  )
}

/** Undefined for names that a run cannot have, and for paths that lead elsewhere. */
function typeOf(name: string): RunFileType | undefined {
  const segments = name.split('/')
  const [first = ''] = segments
  if (segments.some((segment) => segment === '' || segment === '.' || segment === '..')) {
    return undefined
  }
  if (/[\\\p{Cc}:]/u.test(name)) return undefined
  const known = segments.length === 1 ? files : folders
  return Object.hasOwn(known, first) ? known[first] : undefined
}

const atOnce = 8
const mostAddresses = 500
const pauses = [500, 1000]

/**
 * Downloads files of a run below a folder, eight at once, each up to three times. Resolves with
 * those that failed.
 */
export async function downloadRunFiles(
  client: PlatformClient,
  run: string,
  options: {
    readonly files: readonly RunFile[]
    readonly folder: string
    /** Also download files that exist with the same size. */
    readonly overwrite: boolean
    readonly storage: Storage
    readonly signal: AbortSignal
  },
): Promise<{
  readonly downloaded: readonly RunFile[]
  readonly skipped: number
  readonly failed: readonly FailedFile[]
}> {
  const { folder, overwrite, signal } = options
  const wanted: RunFile[] = []
  for (const file of options.files) {
    const there = overwrite ? undefined : await stat(path.join(folder, file.path)).catch(() => {})
    if (there?.size !== file.size) wanted.push(file)
  }
  const failed: FailedFile[] = []
  for (let at = 0; at < wanted.length; at += mostAddresses) {
    const batch = wanted.slice(at, at + mostAddresses)
    const addresses = await addressesOf(client, run, batch)
    const queue = [...batch]
    const work = async (): Promise<void> => {
      for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
        try {
          await downloadOne(client, run, file, addresses.get(file.path), options)
        } catch (error) {
          signal.throwIfAborted()
          failed.push({ path: file.path, error: errorMessage(error) })
        }
      }
    }
    await Promise.all(Array.from({ length: Math.min(atOnce, batch.length) }, work))
  }
  const missing = new Set(failed.map(({ path: name }) => name))
  return {
    downloaded: wanted.filter((file) => !missing.has(file.path)),
    skipped: options.files.length - wanted.length,
    failed,
  }
}

async function downloadOne(
  client: PlatformClient,
  run: string,
  file: RunFile,
  address: string | undefined,
  options: { folder: string; storage: Storage; signal: AbortSignal },
): Promise<void> {
  const { folder, storage, signal } = options
  const target = path.join(folder, file.path)
  await mkdir(path.dirname(target), { recursive: true })
  let url = address
  for (let attempt = 0; ; attempt += 1) {
    try {
      if (url === undefined) {
        throw new PlatformError('PLATFORM_ERROR', `The platform gave no address for ${file.path}.`)
      }
      await storage.download(url, target, file.size)
      return
    } catch (error) {
      const ms = pauses[attempt]
      if (!(error instanceof PlatformError) || ms === undefined) throw error
      await wait(ms, signal)
      // Addresses expire.
      if (error.status === 403 || url === undefined) {
        url = (await addressesOf(client, run, [file])).get(file.path)
      }
    }
  }
}

async function addressesOf(
  client: PlatformClient,
  run: string,
  wanted: readonly RunFile[],
): Promise<Map<string, string>> {
  const items = wanted.map(({ path: name, token }) => ({ path: name, ...(token && { token }) }))
  const answer = await client.request(['eval-runs', run, 'samples', 'download-urls'], {
    method: 'POST',
    body: { items },
  })
  const given = [answer['items'], answer['files'], answer['urls']].flatMap(objectsOf)
  return new Map(
    given.flatMap(({ path: name, url, presigned_url: presigned }) => {
      const address = textOf(url) ?? textOf(presigned)
      return typeof name === 'string' && address !== undefined ? [[name, address] as const] : []
    }),
  )
}
