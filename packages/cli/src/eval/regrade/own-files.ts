import { realpathSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { configSections, findWorkspaceRoot, type RunReader } from '@osmosis/eval'

import { resolvePath, workingFolder } from '../../command/command-context.ts'
import { splitSpec } from '../../inputs/load-module.ts'

/** The parts of a run that are files of the workspace in which the command was started. */
export interface OwnFiles {
  /** `<file>[:<export>]`, absolute; null when the workspace has no such file. */
  readonly entrypoint: string | null
  /** The folder of the rollout, for a run with a config; else null. */
  readonly folder: string | null
  /** The variables that the config of the run sets, as its file is now. */
  readonly env: Readonly<Record<string, string>>
}

/** A run may be a stranger's: its manifest names what is looked up in the workspace, and brings no code and no variable. */
export async function ownFiles({
  location,
  manifest,
}: Pick<RunReader, 'location' | 'manifest'>): Promise<OwnFiles> {
  const { inputs, provenance } = manifest
  const workspace = await findWorkspaceRoot(resolvePath('file'))
  if (workspace === undefined) return { entrypoint: null, folder: null, env: {} }
  const root = realpathSync.native(workspace)
  const run = realpathSync.native(location)
  const find = (name: string): string | undefined =>
    [root, workingFolder()]
      .map((base) => realFile(base, name))
      .find((file) => file !== undefined && isOwn(file, root, run))
  const { file, name } = splitSpec(inputs.code.entrypoint)
  const found = find(file)
  const config = provenance.config === null ? undefined : find(provenance.config)
  return {
    entrypoint: found === undefined ? null : name === undefined ? found : `${found}:${name}`,
    folder: found === undefined || config === undefined ? null : rolloutFolder(found, root),
    env: config === undefined ? {} : await variablesOf(config),
  }
}

function realFile(base: string, name: string): string | undefined {
  try {
    const real = realpathSync.native(path.join(base, name))
    return statSync(real).isFile() ? real : undefined
  } catch {
    // A name may be anything.
    return undefined
  }
}

/**
 * Whether a file is the workspace's own. A run may have been unpacked anywhere in it, together with code: a file that
 * shares a folder with the run is not, and neither is what packages and tools keep.
 */
function isOwn(file: string, root: string, run: string): boolean {
  const parts = path.relative(root, file).split(path.sep)
  const isBesideRun =
    isInside(root, run) || path.relative(root, run).split(path.sep)[0] === parts[0]
  const isKept = parts.some((part) => part === 'node_modules' || part.startsWith('.'))
  return isInside(file, root) && !isBesideRun && !isKept
}

function isInside(file: string, folder: string): boolean {
  const way = path.relative(folder, file)
  return !path.isAbsolute(way) && way.split(path.sep)[0] !== '..'
}

/** `rollouts/<name>` of the workspace, if the entrypoint is in it. */
function rolloutFolder(entrypoint: string, root: string): string | null {
  const [rollouts, rollout = '', ...inside] = path.relative(root, entrypoint).split(path.sep)
  return rollouts === 'rollouts' && inside.length > 0 ? path.join(root, rollouts, rollout) : null
}

async function variablesOf(config: string): Promise<Readonly<Record<string, string>>> {
  try {
    const { env = {} } = configSections('eval', await readFile(config, 'utf8'))
    return env as Readonly<Record<string, string>>
  } catch {
    // It is no config any more.
    return {}
  }
}
