import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { configSections, findWorkspaceRoot, platformProblems, type ConfigKind } from '@osmosis/eval'

import { fail, ok, type CheckFinding } from '../../command/findings.ts'
import type { ValidateRolloutFlags } from '../validate.ts'
import { fromHere } from '../../command/surroundings.ts'

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

/** A config of a workspace. */
export interface ConfigFile {
  readonly kind: ConfigKind
  /** Absolute. */
  readonly file: string
  /** Relative to the workspace. */
  readonly name: string
  /** `rollout` of `[experiment]`; undefined when it names none. */
  readonly rollout: string | undefined
  /** Problems that the platform would report. */
  readonly problems: readonly string[]
  /** Names in `[secrets] required`; empty for a config with problems. */
  readonly secrets: readonly string[]
}

/**
 * The targets of a validation: a module, or rollouts of the workspace.
 *
 * @throws OsmosisError with code `invalid_config` without a target
 */
export async function findTargets(
  name: string | undefined,
  { module, dataset }: ValidateRolloutFlags,
): Promise<readonly ValidationTarget[]> {
  if (module !== undefined) {
    const target = { file: module, dataset }
    return [{ name: module, configs: [], evalConfig: undefined, module: target }]
  }
  if (dataset !== undefined) throw invalid('--dataset goes with --module: a config has one.')
  const root = await findWorkspaceRoot(fromHere('osmosis.toml'))
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

/** The configs of a workspace, in the order of their names. */
export async function workspaceConfigs(root: string): Promise<readonly ConfigFile[]> {
  const kinds = ['eval', 'training'] as const
  const found = await Promise.all(
    kinds.map(async (kind) => {
      const folder = path.join(root, 'configs', kind)
      const names = await readdir(folder).catch(() => [])
      const files = names.filter((file) => file.endsWith('.toml')).toSorted()
      return Promise.all(files.map(async (file) => readConfig(root, kind, path.join(folder, file))))
    }),
  )
  return found.flat()
}

async function readConfig(root: string, kind: ConfigKind, file: string): Promise<ConfigFile> {
  const text = await readFile(file, 'utf8')
  const name = path.relative(root, file).replaceAll(path.sep, '/')
  // A regular expression also finds it in an invalid config.
  const [, , rollout] = /^[ \t]*rollout[ \t]*=[ \t]*(["'])(.+?)\1/m.exec(text) ?? []
  const problems = platformProblems(kind, text)
  // Without problems it has the known form.
  const required = problems.length > 0 ? [] : configSections(kind, text)['secrets']?.['required']
  return { kind, file, name, rollout, problems, secrets: (required ?? []) as readonly string[] }
}

/** Checks that the platform would accept the configs of a rollout, and that it has an eval config. */
export async function configFindings({
  name,
  configs,
  evalConfig,
  module,
}: ValidationTarget): Promise<readonly CheckFinding[]> {
  if (module !== undefined) return []
  const findings = configs.map((config) =>
    config.problems.length === 0
      ? ok('config', config.name)
      : fail(
          'config',
          [
            `The platform would refuse ${config.name}:`,
            ...config.problems.map((line) => `- ${line}`),
          ].join('\n'),
        ),
  )
  if (evalConfig !== undefined) return findings
  const file = `configs/eval/${name}.toml`
  const advice = `Write ${file}, or name a module: --module rollouts/${name}/main.ts --dataset <file>`
  return [
    ...findings,
    fail('config', `No config in configs/eval/ names the rollout ${name}.`, advice),
  ]
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
