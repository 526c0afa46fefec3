import { downloadRunFiles, listRunFiles, PlatformError, Storage } from '@osmosis/platform'

import type { PlatformSession } from './platform-session.ts'
import type { RunDownloadFlags } from './run-commands.ts'
import { fromHere } from '../surroundings.ts'

const types = ['metrics', 'trajectories', 'artifacts', 'logs']
/** More than this is asked about first. */
const largeBytes = 100 * 1024 ** 2

/** Downloads what an evaluation run on the platform has written. */
export async function downloadRunCommand(
  session: PlatformSession,
  run: string,
  flags: RunDownloadFlags,
): Promise<number> {
  const { output, signal } = session
  const wanted = flags.types?.flatMap((value) => value.split(',')) ?? ['metrics', 'trajectories']
  const unknown = wanted.find((type) => !types.includes(type))
  if (unknown !== undefined) {
    throw new PlatformError('VALIDATION', `--types are ${types.join(', ')}, got ${unknown}.`)
  }
  const { client } = await session.scoped()
  const query = { types: wanted.join(','), rows: flags.rows }
  const files = await listRunFiles(client, run, query)
  const folder = fromHere(flags.output ?? folderName(run))
  const size = files.reduce((sum, file) => sum + file.size, 0)
  const end = (status: string, message: string, more: Record<string, unknown> = {}): void =>
    output.operation({
      status,
      operation: 'eval.download',
      resource: { name: run, path: folder, files: files.length, bytes: size, ...more },
      message,
    })
  const agreed =
    size <= largeBytes ||
    (await session.confirm(
      { prompt: `Download ${Math.ceil(size / 1024 ** 2)} MiB?`, defaultYes: true },
      flags.yes,
    ))
  if (!agreed) {
    end('cancelled', 'Nothing was downloaded.')
    return 0
  }
  const storage = new Storage({ signal })
  try {
    const { downloaded, skipped, failed } = await downloadRunFiles(client, run, {
      files,
      folder,
      overwrite: flags.overwrite ?? false,
      storage,
      signal,
    })
    for (const { path: name, error } of failed) output.note(`${name}: ${error}`)
    const counts = { downloaded, skipped, failed }
    const there = skipped === 0 ? '' : ` ${skipped} were there already.`
    const missing = failed.length === 0 ? '' : ` ${failed.length} could not be downloaded.`
    const status = failed.length === 0 ? 'success' : 'partial'
    end(status, `Downloaded ${downloaded} files to ${folder}.${there}${missing}`, counts)
    return failed.length === 0 ? 0 : 1
  } finally {
    await storage.close()
  }
}

/** A name of the platform, as that of one folder here. */
function folderName(run: string): string {
  const name = run.replaceAll(/[^\w.-]+/g, '-')
  return /^\.*$/.test(name) ? 'run' : name
}
