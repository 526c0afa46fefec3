import { randomBytes } from 'node:crypto'
import path from 'node:path'

import { archiveRun, createRun, resumeRun, type RunStore } from '@osmosis/eval'
import type { RunManifest } from '@osmosis/eval/analysis'
import type { FolderLock } from '@osmosis/protocol/files'

import type { EntrypointKind } from '../../child/served-workflow.ts'
import { workingFolder } from '../../command/command-context.ts'
import { flagArguments } from '../../command/flags.ts'
import { provenanceOf } from '../../inputs/provenance.ts'
import type { KnownInputs } from '../../inputs/run-inputs.ts'
import type { EvalRunFlags } from '../run.ts'
import type { ChosenRun } from './choose-run.ts'
import type { EvalRunPlan } from './evaluation-plan.ts'

/**
 * Opens a stored run to resume it, and adds the requested rows and attempts. The caller closes it.
 *
 * @throws OsmosisError with code `run_locked`, `damaged_run` or `storage_error`
 */
export async function openEarlierRun(
  { location, rows, n }: ChosenRun,
  { passThreshold }: EvalRunPlan,
): Promise<RunStore> {
  const store = await resumeRun({ location })
  try {
    await store.grow({ rows, n, pass_threshold: passThreshold })
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

/**
 * Creates a run; an existing run of the same name is renamed first. The caller closes it.
 *
 * @throws OsmosisError with code `invalid_config`, `run_locked` or `storage_error`
 */
export async function beginRun(
  { name, location, archives, rows, n }: ChosenRun,
  {
    plan,
    inputs,
    digests,
    kind,
    resumeWith,
    lock,
  }: {
    plan: EvalRunPlan
    inputs: KnownInputs
    /** Of each part of the code. */
    digests: RunManifest['provenance']['digests']
    kind: EntrypointKind
    resumeWith: readonly string[]
    /** The lock of a generated name. */
    lock: FolderLock | undefined
  },
): Promise<RunStore> {
  if (archives) await archiveRun(location)
  const manifest: RunManifest = {
    schema_version: 1,
    local_run_id: randomBytes(16).toString('hex'),
    run_name: name,
    created_at: new Date().toISOString(),
    inputs: { ...inputs, code: { ...inputs.code, kind } },
    n,
    pass_threshold: plan.passThreshold,
    provenance: {
      ...(await provenanceOf(plan.root, plan.config)),
      digests,
      resume: { arguments: resumeWith, folder: workingFolder() },
    },
    rows,
  }
  return createRun({ outputRoot: path.dirname(location), manifest, lock })
}

/** Flags that apply to one start, or only to its output and questions. */
const notRepeated = new Set<keyof EvalRunFlags>([
  'module',
  'dataset',
  'name',
  'fresh',
  'retryFailed',
  'dryRun',
  'details',
  'quiet',
  'json',
  'yes',
])

/** The arguments of `osmosis` that resume a run which was started with these flags. */
export function resumeArguments(
  configFile: string | undefined,
  flags: EvalRunFlags,
  name: string,
): string[] {
  const { module, dataset } = flags
  const what = [
    ...(configFile === undefined ? [] : [configFile]),
    ...(module === undefined ? [] : ['-m', module]),
    ...(dataset === undefined ? [] : ['-d', dataset]),
  ]
  const repeated = flagArguments(flags, notRepeated, { grader: true })
  return ['eval', 'run', ...what, ...repeated, '--name', name]
}
