import { stat } from 'node:fs/promises'
import { dirname, extname, isAbsolute, join, relative, resolve, sep } from 'node:path'

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
 * A dataset: a path relative to the workspace, or the name of a file in `data/`, whose `.jsonl` may
 * be left out.
 */
export async function findDataset(workspaceRoot: string, dataset: string): Promise<FoundFile> {
  const name = extname(dataset) === '' ? `${dataset}.jsonl` : dataset
  const bare = !/[/\\]/.test(dataset)
  const file = bare ? join(workspaceRoot, 'data', name) : resolve(workspaceRoot, name)
  return existing(file)
}

async function existing(file: string): Promise<FoundFile> {
  const isFile = (await stat(file).catch(() => undefined))?.isFile() ?? false
  return isFile ? { file } : { problem: `no such file: ${file}` }
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false
}
