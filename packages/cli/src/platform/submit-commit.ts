import {
  findGithubCommit,
  git,
  PlatformError,
  type GithubAccess,
  type GitWorkspace,
} from '@osmosis/platform'

/**
 * What should be known about the commit that the platform will check out. Work that it will not see
 * is worth a warning, and never a refusal.
 *
 * @throws PlatformError with code `VALIDATION` for a pinned commit that is not on GitHub
 */
export async function commitWarnings(
  workspace: GitWorkspace,
  pinned: string | undefined,
  access: GithubAccess,
): Promise<string[]> {
  const warnings = await workWarnings(workspace.folder)
  if (pinned === undefined) return warnings
  const isHere = (await git(workspace.folder, 'cat-file', '-e', `${pinned}^{commit}`)) !== undefined
  const remote = await findGithubCommit(workspace.identity, pinned, access)
  if (remote === 'absent') {
    throw new PlatformError(
      'VALIDATION',
      `The commit ${pinned} is not on GitHub (${workspace.identity}): ${isHere ? 'push it' : 'check commit_sha'}.`,
    )
  }
  if (remote === 'unknown' && !isHere) {
    warnings.push(`The commit ${pinned} is not here, and GitHub could not be asked about it.`)
  }
  return warnings
}

async function workWarnings(folder: string): Promise<string[]> {
  const warnings: string[] = []
  const changed = await git(folder, 'status', '--porcelain')
  if (changed)
    warnings.push('There are changes that are not committed: the platform will not see them.')
  const unpushed = await git(folder, 'rev-list', '--count', '@{upstream}..HEAD')
  if (unpushed === undefined)
    warnings.push('The branch has no upstream: the platform may not see it.')
  else if (unpushed !== '0') {
    warnings.push(`Commits that are not pushed: ${unpushed}. The platform will not see them.`)
  }
  return warnings
}
