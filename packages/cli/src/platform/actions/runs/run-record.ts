import { isJsonObject } from '@osmosis/core/http'

import { textOf, type JsonObject } from '../../client/answers.ts'
import type { PlatformClient } from '../../client/platform-client.ts'
import { unexpectedAnswer } from '../../client/platform-error.ts'

/** The two kinds of hosted runs, by the names of their commands. */
export type RunKind = 'eval' | 'train'

/** Names of each kind on the platform and in a workspace. */
export const runKinds = {
  eval: { route: 'eval-runs', list: 'eval_runs', one: 'eval_run', config: 'eval' },
  train: {
    route: 'training-runs',
    list: 'training_runs',
    one: 'training_run',
    config: 'training',
  },
} as const

/** Statuses of runs that have not started: they have no metrics, and nothing to download. */
export const waitingStatuses: readonly string[] = ['pending', 'queued']

/** A run on the platform. */
export interface FoundHostedRun {
  readonly id: string
  readonly name: string | undefined
  readonly status: string
  /** The record that all command lines of Osmosis print. */
  readonly record: JsonObject
  /** The whole answer. */
  readonly answer: JsonObject
}

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
    throw unexpectedAnswer(`The platform sent no id of the run ${nameOrId}.`)
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
