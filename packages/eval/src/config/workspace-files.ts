import { stat } from 'node:fs/promises'
import { dirname, extname, isAbsolute, join, relative, resolve, sep } from 'node:path'

/** What a dataset may be called when its config leaves the extension out. */
const datasetExtensions = ['.jsonl', '.ndjson', '.csv', '.parquet']

/** A file that was looked for: where it is, or what is wrong. */
export type FoundFile = { readonly file: string } | { readonly problem: string }

/** The nearest folder above `file` that has `rollouts/` and `data/`. */
export async function findWorkspaceRoot(file: string): Promise<string | undefined> {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const parts = await Promise.all(
      ['rollouts', 'data'].map((part) => isFolder(join(folder, part))),
    )
    if (parts.every(Boolean)) return folder
    if (folder === dirname(folder)) return undefined
  }
}

/** A file that must lie in `folder`. */
export async function findInside(folder: string, path: string): Promise<FoundFile> {
  const file = resolve(folder, path)
  const fromFolder = relative(folder, file)
  if (isAbsolute(fromFolder) || fromFolder === '..' || fromFolder.startsWith(`..${sep}`)) {
    return { problem: `must lie inside ${folder}, got "${path}"` }
  }
  return existing(file)
}

/**
 * A dataset: a path relative to the workspace, or the name of a file in `data/`. The extension may
 * be left out.
 */
export async function findDataset(workspaceRoot: string, dataset: string): Promise<FoundFile> {
  const bare = !/[/\\]/.test(dataset)
  const file = bare ? join(workspaceRoot, 'data', dataset) : resolve(workspaceRoot, dataset)
  if (extname(dataset) !== '') return existing(file)
  const candidates = datasetExtensions.map((extension) => `${file}${extension}`)
  const areFiles = await Promise.all(candidates.map(isFile))
  const [first, ...others] = candidates.filter((_candidate, index) => areFiles[index])
  if (first === undefined) return { problem: `no such file: ${candidates.join(', ')}` }
  if (others.length === 0) return { file: first }
  return { problem: `write the extension; there are ${[first, ...others].join(' and ')}` }
}

async function existing(file: string): Promise<FoundFile> {
  return (await isFile(file)) ? { file } : { problem: `no such file: ${file}` }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false
}
