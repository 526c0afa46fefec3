import { join, resolve } from 'node:path'

import type { CheckedSections } from './config-sections.ts'
import { findDataset, findInside, type FoundFile } from './workspace-files.ts'

/** The files an eval config names; absolute, undefined for one that is not there. */
export interface ConfigFiles {
  readonly entrypoint: string | undefined
  readonly dataset: string | undefined
}

/** Finds the files of a config and adds a line to `problems` for each that is not there. */
export async function findConfigFiles(
  workspaceRoot: string,
  { experiment }: CheckedSections<'eval'>,
  options: { datasetFile?: string; problems: string[] },
): Promise<ConfigFiles> {
  function expectFile(key: string, found: FoundFile): string | undefined {
    if ('file' in found) return found.file
    options.problems.push(`${key}: ${found.problem}`)
    return undefined
  }
  const { datasetFile } = options
  return {
    entrypoint:
      experiment &&
      expectFile(
        'experiment.entrypoint',
        await findInside(rolloutFolder(workspaceRoot, experiment.rollout), experiment.entrypoint),
      ),
    dataset:
      datasetFile === undefined
        ? experiment &&
          expectFile('experiment.dataset', await findDataset(workspaceRoot, experiment.dataset))
        : resolve(datasetFile),
  }
}

/** The folder of a rollout. */
export function rolloutFolder(workspaceRoot: string, rollout: string): string {
  return join(workspaceRoot, 'rollouts', rollout)
}
