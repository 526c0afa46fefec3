import { OsmosisError } from '@osmosis/core'
import { readDataset, type DatasetRow } from '@osmosis/eval'

import { workspaceHere, type PolicySurroundings } from '../../inputs/choose-policy.ts'
import { planEvaluation, type EvalRunPlan } from '../../eval/run/evaluation-plan.ts'
import { serverKey } from '../../eval/models/remote-servers.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import type { SendFlags } from '../send.ts'
import { namedHere, protectData, workingFolder } from '../../command/surroundings.ts'

/** A rollout server that runs, or an entrypoint to start one. */
type SendTarget =
  | { readonly kind: 'server'; readonly url: string; readonly apiKey: string | undefined }
  | ({ readonly kind: 'entrypoint' } & Pick<EvalRunPlan, 'entrypoint' | 'folder' | 'env'>)

/** The row to send, and its target. */
export interface SendPlan extends Pick<
  EvalRunPlan,
  'dataset' | 'agentTimeoutSeconds' | 'graderTimeoutSeconds' | 'secrets'
> {
  readonly target: SendTarget
  readonly row: DatasetRow
  readonly policy: PolicySurroundings
}

/**
 * Resolves the row and the target.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint` or `invalid_dataset`
 */
export async function planSend(
  target: string,
  rowIndex: number,
  flags: SendFlags,
  environment: NodeJS.ProcessEnv,
): Promise<SendPlan> {
  const { dataset, config, secretsFile, serverApiKeyEnv } = flags
  if ((dataset === undefined) === (config === undefined)) {
    throw invalid('Name the source of the row: --dataset <file>, or --config <eval config>.')
  }
  const isUrl = /^https?:\/\//i.test(target)
  if (!isUrl && serverApiKeyEnv !== undefined) {
    throw invalid('--server-api-key-env is for the URL of a server: an entrypoint is served here.')
  }
  if (isUrl && flags.serverLog !== undefined) {
    throw invalid('--server-log is for an entrypoint: a server at a URL keeps its own log.')
  }
  const source =
    config === undefined
      ? await withoutConfig(dataset ?? '', secretsFile)
      : await planEvaluation(config, wholeDataset(secretsFile), environment)
  return {
    dataset: source.dataset,
    row: rowAt(rowIndex, source),
    agentTimeoutSeconds: source.agentTimeoutSeconds,
    graderTimeoutSeconds: source.graderTimeoutSeconds,
    secrets: source.secrets,
    policy: source.policy,
    target: isUrl
      ? { kind: 'server', url: target, apiKey: serverKey(serverApiKeyEnv, environment) }
      : { kind: 'entrypoint', ...source, entrypoint: entrypointOf(target) },
  }
}

type RowSource = Pick<
  EvalRunPlan,
  'agentTimeoutSeconds' | 'dataset' | 'env' | 'folder' | 'graderTimeoutSeconds' | 'policy'
> &
  Pick<EvalRunPlan, 'rows' | 'secrets'>

async function withoutConfig(dataset: string, secretsFile: string | undefined): Promise<RowSource> {
  if (secretsFile !== undefined) {
    throw invalid('--secrets-file needs a config, which names the secrets.')
  }
  const rows = await readDataset(namedHere(dataset))
  protectData(rows)
  return {
    dataset,
    rows,
    folder: workingFolder(),
    env: {},
    secrets: {},
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    policy: { workspace: await workspaceHere() },
  }
}

/** Ignores the row limit of the config, which is for evaluations. */
function wholeDataset(secretsFile: string | undefined): Parameters<typeof planEvaluation>[1] {
  const all = { limit: Number.MAX_SAFE_INTEGER }
  return secretsFile === undefined ? all : { ...all, secretsFile }
}

function rowAt(index: number, { dataset, rows }: Pick<RowSource, 'dataset' | 'rows'>): DatasetRow {
  const row = rows[index]
  if (row !== undefined) return row
  const valid = rows.length === 0 ? 'it is empty' : `its rows are 0 to ${rows.length - 1}`
  throw new OsmosisError('invalid_dataset', `${dataset} has no row ${index}: ${valid}.`)
}

function entrypointOf(target: string): string {
  const { file, name } = splitSpec(target)
  const found = moduleFile('entrypoint', file)
  return name === undefined ? found : `${found}:${name}`
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
