import { execFile } from 'node:child_process'

import { Agent, request } from 'undici'

import type { Environment } from '../settings.ts'

/** `unknown` when nobody could be asked, or nobody who may read the repository. */
export type CommitOnGithub = 'present' | 'absent' | 'unknown'

/** What is needed to ask. */
export interface GithubAccess {
  /** For `gh` and `git`. */
  readonly environment: Environment
  readonly signal: AbortSignal
  /** Default: `https://api.github.com`. */
  readonly apiUrl?: string
}

const timeoutMs = 10_000

/**
 * Asks GitHub about a commit of a repository: through its command line `gh`, else with the login
 * that git has for github.com.
 */
export async function findGithubCommit(
  repository: string,
  commit: string,
  access: GithubAccess,
): Promise<CommitOnGithub> {
  const route = `repos/${repository}/commits/${commit}`
  const { failed, stderr } = await run('gh', ['api', route, '--silent'], access)
  if (!failed) return 'present'
  // Any other refusal, such as 404, is about the repository or who may see it.
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

/** Nothing here may wait for somebody to type a password. */
const askNobody = {
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
  const env = { ...environment, ...askNobody }
  const child = execFile(
    command,
    args,
    { env, signal, timeout: timeoutMs },
    (error, stdout, stderr) => resolve({ failed: error !== null, stdout, stderr }),
  )
  // A command that is not there, or reads nothing, closes its end.
  child.stdin?.on('error', () => {}).end(input)
  const result = await promise
  signal.throwIfAborted()
  return result
}
