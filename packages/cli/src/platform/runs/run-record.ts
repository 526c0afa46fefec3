import { isJsonObject } from '@osmosis/core/http'
import { PlatformError, textOf, type JsonObject, type PlatformClient } from '@osmosis/platform'

import { runKinds, type FoundHostedRun, type RunKind } from './run-kinds.ts'

/**
 * Finds a run by its name or id. Most routes of a run accept only its id.
 *
 * @throws PlatformError with code `NOT_FOUND`
 */
export async function findRun(
  client: PlatformClient,
  kind: RunKind,
  nameOrId: string,
): Promise<FoundHostedRun> {
  const { route, one } = runKinds[kind]
  const answer = await client.request([route, nameOrId])
  const run = isJsonObject(answer[one]) ? answer[one] : {}
  const id = textOf(run['id'])
  if (id === undefined) {
    throw new PlatformError('PLATFORM_ERROR', `The platform sent no id of the run ${nameOrId}.`, {
      status: 200,
    })
  }
  const { dataset, rollout, model, config, results } = answer
  const path = isJsonObject(config) ? textOf(config['model_path']) : undefined
  const about = { dataset, rollout, model: path === undefined ? model : { name: path } }
  const more = kind === 'eval' ? { config, results } : {}
  return {
    id,
    name: textOf(run['name']),
    status: textOf(run['status']) ?? '',
    record: runRecord(kind, { ...run, ...about, ...more }),
    answer,
  }
}

/** The record of a run that all command lines of Osmosis print. */
export function runRecord(kind: RunKind, run: JsonObject): JsonObject {
  const { model, dataset, rollout, ...own } = run
  const { id = null, name = null, status = '', created_at: created = '' } = own
  return {
    id,
    name,
    status,
    ...(kind === 'eval'
      ? { model: nameOf(model), dataset: nameOf(dataset), rollout: nameOf(rollout) }
      : {
          ...reference('model', model),
          ...reference('dataset', dataset),
          ...reference('rollout', rollout),
        }),
    ...picked(own, ['creator_name', 'creator_email']),
    created_at: created,
    ...picked(own, ['started_at', 'completed_at']),
    ...present(own, ['platform_url', 'results', 'config', 'current_step', 'total_steps', 'reward']),
    ...present(own, ['examples_processed_count', 'notes']),
  }
}

function reference(key: string, value: unknown): JsonObject {
  const id = isJsonObject(value) ? (value['id'] ?? null) : null
  return { [`${key}_id`]: id, [`${key}_name`]: nameOf(value) }
}

/** Models, datasets and rollouts have different keys for their names. */
function nameOf(value: unknown): string | null {
  if (!isJsonObject(value)) return null
  const { name, file_name: file, model_name: model } = value
  return textOf(name) ?? textOf(file) ?? textOf(model) ?? null
}

/** These keys; null for missing values. */
export function picked(from: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(keys.map((key) => [key, from[key] ?? null]))
}

function present(from: JsonObject, keys: readonly string[]): JsonObject {
  const there = keys.filter((key) => from[key] !== undefined && from[key] !== null)
  return picked(from, there)
}
