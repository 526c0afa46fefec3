import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

import { Agent, request } from 'undici'

import { PlatformError, wrongUse } from '../client/platform-error.ts'

/** A repository that is connected to a workspace. */
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
      `${top} is not a workspace of Osmosis: it lacks ${missing.join(', ')}. Create them, or name a workspace with --workspace.`,
      { details: { missing } },
    )
  }
  const origin = await git(top, 'remote', 'get-url', 'origin')
  const identity = origin === undefined ? undefined : githubRepository(origin)
  if (origin === undefined || identity === undefined) {
    throw wrongUse(
      `The origin of ${top} must be a repository on github.com: the platform knows a workspace by it. Or name one with --workspace.`,
    )
  }
  const remoteUrl = origin.replace(/^([a-z]+:\/\/)[^@/]+@/i, '$1')
  return { folder: top, identity, remoteUrl }
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

/** Output of git in a folder; undefined when it fails. */
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

/** `unknown` without an answer of GitHub, or without access to the repository. */
type CommitOnGithub = 'present' | 'absent' | 'unknown'

/** Settings for queries to GitHub. */
export interface GithubAccess {
  /** For `gh` and `git`. */
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  /** Default: `https://api.github.com`. */
  readonly apiUrl?: string
}

const timeoutMs = 10_000

/**
 * Looks up a commit on GitHub: with its command line `gh`, else with the login that git has for github.com.
 */
export async function findGithubCommit(
  repository: string,
  commit: string,
  access: GithubAccess,
): Promise<CommitOnGithub> {
  const route = `repos/${repository}/commits/${commit}`
  const { failed, stderr } = await run('gh', ['api', route, '--silent'], access)
  if (!failed) return 'present'
  // Other errors, such as 404, concern the repository or the access to it.
  if (/HTTP 422|No commit found/i.test(stderr)) return 'absent'
  const token = await gitToken(access)
  return token === undefined ? 'unknown' : askWith(token, route, access)
}

async function gitToken(access: GithubAccess): Promise<string | undefined> {
  const wanted = 'protocol=https\nhost=github.com\n\n'
  const { failed, stdout } = await run('git', ['credential', 'fill'], access, wanted)
  return failed ? undefined : /^password=(.+)$/m.exec(stdout)?.[1]
}

async function askWith(
  token: string,
  route: string,
  { signal, apiUrl = 'https://api.github.com' }: GithubAccess,
): Promise<CommitOnGithub> {
  const dispatcher = new Agent()
  try {
    const { statusCode, body } = await request(`${apiUrl}/${route}`, {
      dispatcher,
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${token}`,
        'user-agent': 'osmosis-cli',
      },
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    await body.dump()
    if (statusCode === 200) return 'present'
    return statusCode === 422 ? 'absent' : 'unknown'
  } catch {
    signal.throwIfAborted()
    return 'unknown'
  } finally {
    await dispatcher.destroy()
  }
}

/** Prevents prompts for a password. */
const withoutPrompts = {
  GCM_INTERACTIVE: 'never',
  GH_PROMPT_DISABLED: '1',
  GIT_ASKPASS: '',
  GIT_TERMINAL_PROMPT: '0',
}

async function run(
  command: string,
  args: readonly string[],
  { environment, signal }: GithubAccess,
  input = '',
): Promise<{ failed: boolean; stdout: string; stderr: string }> {
  signal.throwIfAborted()
  const { promise, resolve } = Promise.withResolvers<Awaited<ReturnType<typeof run>>>()
  const env = { ...environment, ...withoutPrompts }
  const child = execFile(
    command,
    args,
    { env, signal, timeout: timeoutMs },
    (error, stdout, stderr) => resolve({ failed: error !== null, stdout, stderr }),
  )
  // A missing command, or one that reads no input, closes the pipe.
  child.stdin?.on('error', () => {}).end(input)
  const result = await promise
  signal.throwIfAborted()
  return result
}
