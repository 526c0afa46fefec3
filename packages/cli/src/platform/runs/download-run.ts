import {
  downloadRunFiles,
  listRunFiles,
  PlatformError,
  Storage,
  type RunFile,
} from '@osmosis/platform'

import type { PlatformSession } from '../platform-session.ts'
import type { RunDownloadFlags } from './run-commands.ts'
import { findRun } from './run-record.ts'
import { waitingStatuses } from './run-actions.ts'
import { fromHere } from '../../command/surroundings.ts'

/** More than this is asked about first. */
const largeBytes = 100 * 1024 ** 2

/** Downloads what an evaluation run on the platform has written. */
export async function downloadRunCommand(
  session: PlatformSession,
  nameOrId: string,
  { types = ['metrics', 'trajectories'], rows, ...flags }: RunDownloadFlags,
): Promise<number> {
  const { output, signal } = session
  const { client } = await session.scoped()
  const { id, name, status } = await findRun(client, 'eval', nameOrId)
  if (waitingStatuses.includes(status)) {
    const message = `There is nothing to download of ${nameOrId} yet: the run is ${status}.`
    throw new PlatformError('VALIDATION', message, { status: 200 })
  }
  const { files, rejected, totals } = await listRunFiles(client, id, { types, rows })
  const folder = fromHere(flags.output ?? folderName(name ?? id))
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
  const storage = new Storage({ signal })
  try {
    const { downloaded, skipped, failed } = await downloadRunFiles(client, id, {
      files,
      folder,
      overwrite: flags.overwrite ?? false,
      storage,
      signal,
    })
    const missing = [...rejected, ...failed]
    for (const { path: file, error } of missing) output.note(`${file}: ${error}`)
    const there = skipped === 0 ? '' : ` ${skipped} were there already.`
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
  } finally {
    await storage.close()
  }
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

/** A name of the platform, as that of one folder here. */
function folderName(run: string): string {
  const name = run.replaceAll(/[^\w.-]+/g, '-')
  return /^\.*$/.test(name) ? 'run' : name
}
