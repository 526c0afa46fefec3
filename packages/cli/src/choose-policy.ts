import { upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import type { EvalConfig } from '@osmosis/eval'

import { loadModule } from './load-module.ts'

/** Flags that say who answers the model calls. */
export interface PolicyFlags {
  policy?: string
  baseUrl?: string
  model?: string
  apiKeyEnv?: string
}

/** A policy and the name it goes by in results. Whoever chose it disposes of it. */
export interface ChosenPolicy extends AsyncDisposable {
  readonly policy: PolicyModel
  readonly name: string
}

/** What a config says about the policy. */
export interface ConfiguredPolicy {
  readonly policy?: EvalConfig['policy'] | undefined
  /** Model to ask for when nothing else names one. */
  readonly model?: string | undefined
  /** Where else a policy could have been named, for the message that nobody is. */
  readonly elsewhere?: string | undefined
}

/**
 * Finds who answers the model calls: the flags first, then the config, where there is one.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function choosePolicy(
  flags: PolicyFlags,
  environment: NodeJS.ProcessEnv,
  { policy: configured, model: configuredModel, elsewhere = '' }: ConfiguredPolicy = {},
): Promise<ChosenPolicy> {
  if (flags.policy !== undefined && flags.baseUrl !== undefined) {
    throw invalid('Pass either --policy or --base-url: one policy answers all model calls.')
  }
  const forEndpoint = flags.model !== undefined || flags.apiKeyEnv !== undefined
  if (flags.policy !== undefined && forEndpoint) {
    throw invalid('--model and --api-key-env belong to an endpoint: leave them out with --policy.')
  }
  if (flags.policy !== undefined) return modulePolicy(flags.policy, flags.policy)

  const endpoint = configured?.kind === 'endpoint' ? configured : undefined
  const baseUrl = flags.baseUrl ?? endpoint?.baseUrl
  if (baseUrl !== undefined) {
    const model = flags.model ?? endpoint?.model ?? configuredModel
    if (model === undefined)
      throw invalid('Pass --model: the endpoint has to know which one to ask.')
    const apiKeyEnv = flags.apiKeyEnv ?? (flags.baseUrl === undefined ? endpoint?.apiKeyEnv : null)
    const apiKey = readKey(apiKeyEnv ?? undefined, environment)
    const policy = upstreamPolicy({ baseUrl, model, ...(apiKey === undefined ? {} : { apiKey }) })
    return chosen(policy, model)
  }
  if (forEndpoint) {
    throw invalid('--model and --api-key-env belong to an endpoint: pass --base-url as well.')
  }
  if (configured?.kind === 'module') return modulePolicy(configured.file, configured.module)
  throw invalid(
    `Nobody is named to answer the model calls. Pass --base-url <url> --model <name> for an OpenAI-compatible endpoint, or --policy <module>${elsewhere}.`,
  )
}

async function modulePolicy(file: string, name: string): Promise<ChosenPolicy> {
  const exports = await loadModule('policy', file)
  const policies = new Map<unknown, string>()
  for (const [key, value] of Object.entries(exports)) {
    if (isPolicyModel(value)) policies.set(value, policies.get(value) ?? key)
  }
  const [policy, ...others] = policies.keys()
  if (isPolicyModel(policy) && others.length === 0) return chosen(policy, name)
  throw new OsmosisError(
    'invalid_entrypoint',
    `The policy module ${name} should export one policy, e.g. what scriptedPolicy() returns; it exports ${[...policies.values()].join(', ') || 'none'}.`,
  )
}

function chosen(policy: PolicyModel, name: string): ChosenPolicy {
  return { policy, name, [Symbol.asyncDispose]: async () => policy.close?.() }
}

function isPolicyModel(value: unknown): value is PolicyModel {
  return typeof (value as Partial<PolicyModel> | null | undefined)?.respond === 'function'
}

function readKey(name: string | undefined, environment: NodeJS.ProcessEnv): string | undefined {
  if (name === undefined) return undefined
  const key = environment[name]
  if (!key) {
    throw invalid(
      `The key of the policy endpoint is missing: the environment variable ${name} is not set.`,
    )
  }
  // A header can carry no other. The key itself is not for a terminal.
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw invalid(
    `The key in ${name} must be visible ASCII characters, without spaces or line breaks.`,
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
