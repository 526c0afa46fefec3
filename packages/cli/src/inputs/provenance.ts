import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

import type { RunManifest } from '@osmosis/eval/analysis'

import { environment } from '../command/command-context.ts'

/** Where a run comes from. @param config - relative to `root`; null without one */
export async function provenanceOf(
  root: string,
  config: string | null,
): Promise<RunManifest['provenance']> {
  return {
    sdk_version: packageVersion(),
    node_version: process.version,
    config,
    root,
    git: await gitState(root),
  }
}

/** The version of this command. */
export function packageVersion(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** The commit of a folder; null outside of a repository, and without git. */
async function gitState(cwd: string): Promise<RunManifest['provenance']['git']> {
  const git = async (...args: string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)('git', args, {
      cwd,
      env: environment(),
      timeout: 2000,
    })
    return stdout.trim()
  }
  try {
    const [commit, changes] = await Promise.all([
      git('rev-parse', 'HEAD'),
      git('status', '--porcelain', '--untracked-files=no'),
    ])
    return { commit, dirty: changes !== '' }
  } catch {
    return null
  }
}
