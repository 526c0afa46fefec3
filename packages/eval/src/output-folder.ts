import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

const ownFolder = '.osmosis'

/** The default folder of the evaluations of a workspace: `.osmosis/evals`. */
export function defaultOutputRoot(workspaceRoot: string): string {
  return path.join(workspaceRoot, ownFolder, 'evals')
}

/**
 * Creates a folder for runs or trainings. A `.osmosis` that it is in gets a `.gitignore`, so that no transcript lands in
 * git.
 *
 * @throws the error of the file system
 */
export async function createOutputFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  const parts = path.resolve(folder).split(path.sep)
  const at = parts.lastIndexOf(ownFolder)
  if (at === -1) return
  const file = path.join(parts.slice(0, at + 1).join(path.sep), '.gitignore')
  await writeFile(file, '*\n', { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}
