import { invalid } from '../../command/exit-codes.ts'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { findWorkspaceRoot } from '@osmosis/eval'

import { workspaceConfigs, type ConfigFile } from '../../checks/workspace-checks.ts'
import type { ValidateFlags } from '../validate.ts'
import { resolvePath } from '../../command/command-context.ts'

/** A rollout to validate. */
export interface ValidationTarget {
  readonly name: string
  /** Its configs in the workspace, absolute. */
  readonly configs: readonly ConfigFile[]
  /** The eval config to run it with; undefined for a module. */
  readonly evalConfig: string | undefined
  /** A module to run without a config. */
  readonly module: { readonly file: string; readonly dataset: string | undefined } | undefined
}

/**
 * The targets of a validation: a module, or rollouts of the workspace.
 *
 * @throws OsmosisError with code `invalid_config` without a target
 */
export async function findTargets(
  name: string | undefined,
  { module, dataset }: ValidateFlags,
): Promise<readonly ValidationTarget[]> {
  if (module !== undefined) {
    const target = { file: module, dataset }
    return [{ name: module, configs: [], evalConfig: undefined, module: target }]
  }
  if (dataset !== undefined) throw invalid('--dataset goes with --module: a config has one.')
  const root = await findWorkspaceRoot(resolvePath('osmosis.toml'))
  if (root === undefined) {
    throw invalid(
      'Not in an Osmosis workspace: no folder here or above has both rollouts/ and data/. Name a module with --module and --dataset, or start a workspace: npm create @osmosis@latest',
    )
  }
  const entries = await readdir(path.join(root, 'rollouts'), { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  if (names.length === 0) throw invalid(`${path.join(root, 'rollouts')} contains no rollouts.`)
  if (name !== undefined && !names.includes(name)) {
    throw invalid(`rollouts/ has no rollout ${name}. Available: ${names.join(', ')}.`)
  }
  const configs = await workspaceConfigs(root)
  return (name === undefined ? names.toSorted() : [name]).map((rollout) => {
    const own = configs.filter((config) => config.rollout === rollout)
    const evalConfig = own.find(({ kind }) => kind === 'eval')?.file
    return { name: rollout, configs: own, evalConfig, module: undefined }
  })
}
