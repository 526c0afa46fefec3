import { upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import type { EvalConfig } from '@osmosis/eval'

import { loadModule } from '../load-module.ts'

/** Flags that say who answers the model calls. */
export interface PolicyFlags {
  policy?: string
  baseUrl?: string
  model?: string
  apiKeyEnv?: string
}

/** A policy and the name it goes by in results. */
export interface ChosenPolicy {
  readonly policy: PolicyModel
  readonly name: string
}

/**
 * Finds who answers the model calls of an evaluation: the flags first, then `[policy]` of the
 * config.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function choosePolicy(
  config: EvalConfig,
  flags: PolicyFlags,
  environment: NodeJS.ProcessEnv,
): Promise<ChosenPolicy> {
  if (flags.policy !== undefined && flags.baseUrl !== undefined) {
    throw invalid('Pass either --policy or --base-url: one policy answers all model calls.')
  }
  if (flags.policy !== undefined) return modulePolicy(flags.policy, flags.policy)

  const { policy: configured } = config
  const endpoint = configured?.kind === 'endpoint' ? configured : undefined
  const baseUrl = flags.baseUrl ?? endpoint?.baseUrl
  if (baseUrl !== undefined) {
    const model = flags.model ?? endpoint?.model ?? config.experiment.modelPath
    const apiKeyEnv = flags.apiKeyEnv ?? (flags.baseUrl === undefined ? endpoint?.apiKeyEnv : null)
    const apiKey = readKey(apiKeyEnv ?? undefined, environment)
    const policy = upstreamPolicy({ baseUrl, model, ...(apiKey === undefined ? {} : { apiKey }) })
    return { policy, name: model }
  }
  if (flags.model !== undefined || flags.apiKeyEnv !== undefined) {
    throw invalid('--model and --api-key-env belong to an endpoint: pass --base-url as well.')
  }
  if (configured?.kind === 'module') return modulePolicy(configured.file, configured.module)
  throw invalid(
    'Nobody is named to answer the model calls. Pass --base-url <url> --model <name> for an OpenAI-compatible endpoint, or --policy <module>, or add a [policy] section to the config.',
  )
}

async function modulePolicy(file: string, name: string): Promise<ChosenPolicy> {
  const exports = await loadModule('policy', file)
  const policies = new Map<unknown, string>()
  for (const [key, value] of Object.entries(exports)) {
    if (isPolicyModel(value)) policies.set(value, policies.get(value) ?? key)
  }
  const [policy, ...others] = policies.keys()
  if (isPolicyModel(policy) && others.length === 0) return { policy, name }
  throw new OsmosisError(
    'invalid_entrypoint',
    `The policy module ${name} should export one policy, e.g. what scriptedPolicy() returns; it exports ${[...policies.values()].join(', ') || 'none'}.`,
  )
}

function isPolicyModel(value: unknown): value is PolicyModel {
  return typeof (value as Partial<PolicyModel> | null | undefined)?.respond === 'function'
}

function readKey(name: string | undefined, environment: NodeJS.ProcessEnv): string | undefined {
  if (name === undefined) return undefined
  const key = environment[name]
  if (key) return key
  throw invalid(
    `The key of the policy endpoint is missing: the environment variable ${name} is not set.`,
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
