import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

import { PlatformError } from '../platform-error.ts'

/** The workspace that a repository is connected to. */
export interface GitWorkspace {
  /** Top level of the repository; absolute. */
  readonly folder: string
  /** `owner/repository`, in lower case. */
  readonly identity: string
  /** Without credentials. */
  readonly remoteUrl: string
}

const folders = ['rollouts', 'configs/training', 'configs/eval', 'data']

/**
 * The workspace of a folder, by the origin of its git repository.
 *
 * @throws PlatformError with code `WORKSPACE_REQUIRED` outside of a repository and `VALIDATION` for
 * one that lacks folders of a workspace or whose origin is not on github.com
 */
export async function findGitWorkspace(folder: string): Promise<GitWorkspace> {
  const top = await git(folder, 'rev-parse', '--show-toplevel')
  if (top === undefined) {
    throw new PlatformError(
      'WORKSPACE_REQUIRED',
      `${folder} is not in a git repository: run the command in your workspace, or name one with --workspace.`,
    )
  }
  const missing = await missingFolders(top)
  if (missing.length > 0) {
    throw new PlatformError(
      'VALIDATION',
      `${top} is not a workspace of Osmosis: it lacks ${missing.join(', ')}. Make them, or name a workspace with --workspace.`,
      { details: { missing } },
    )
  }
  const origin = await git(top, 'remote', 'get-url', 'origin')
  const identity = origin === undefined ? undefined : githubRepository(origin)
  if (origin === undefined || identity === undefined) {
    throw new PlatformError(
      'VALIDATION',
      `The origin of ${top} must be a repository on github.com: the platform knows a workspace by it. Or name one with --workspace.`,
    )
  }
  return { folder: top, identity, remoteUrl: withoutCredentials(origin) }
}

/** `owner/repository` of an address on github.com, in lower case; undefined for another. */
function githubRepository(remote: string): string | undefined {
  const place =
    /^(?:https?|ssh|git):\/\/(?:[^@/]+@)?(?:www\.)?github\.com(?::\d+)?\/(.*)$/i.exec(remote) ??
    /^(?:[^@/:]+@)?github\.com:(.*)$/i.exec(remote)
  const [, owner, name] =
    /^([\w.-]+)\/([\w.-]+?)(?:\.git)?\/?$/.exec(place?.[1]?.replace(/^\/+/, '') ?? '') ?? []
  return owner === undefined ? undefined : `${owner}/${name}`.toLowerCase()
}

/** What git says in a folder; undefined when it fails. */
export async function git(folder: string, ...args: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('git', ['-C', folder, ...args])
    return stdout.trim()
  } catch {
    return undefined
  }
}

async function missingFolders(top: string): Promise<string[]> {
  const found = await Promise.all(
    folders.map(async (name) =>
      (await stat(path.join(top, name)).catch(() => undefined))?.isDirectory(),
    ),
  )
  return folders.filter((_, index) => found[index] !== true)
}

function withoutCredentials(remote: string): string {
  return remote.replace(/^([a-z]+:\/\/)[^@/]+@/i, '$1')
}
