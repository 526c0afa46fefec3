import path from 'node:path'

import { upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import type { PolicyConfig } from '@osmosis/eval'

import { loadModule } from './load-module.ts'
import type { PolicyFlags } from './policy-options.ts'

/** Who answers the model calls: a module that exports a policy, or a model of an endpoint. */
export type PolicyChoice =
  | { readonly kind: 'module'; readonly module: string; readonly file: string }
  | {
      readonly kind: 'endpoint'
      readonly baseUrl: string
      readonly model: string
      /** Null: no key is sent. */
      readonly apiKeyEnv: string | null
    }

/** A policy and the name it goes by in results. Whoever chose it disposes of it. */
export interface ChosenPolicy extends AsyncDisposable {
  readonly policy: PolicyModel
  readonly name: string
}

/** What a config says about the policy. */
export interface ConfiguredPolicy {
  readonly policy?: PolicyConfig | null
  /** Model to ask for when nothing else names one. */
  readonly model?: string
  /** Where else a policy could have been named, for the message that nobody is. */
  readonly elsewhere?: string
}

/**
 * Finds and opens the policy that flags or config name.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function choosePolicy(
  flags: PolicyFlags,
  environment: NodeJS.ProcessEnv,
): Promise<ChosenPolicy> {
  return openPolicy(policyChoice(flags), environment)
}

/**
 * Who answers the model calls: the flags first, then the config, where there is one.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function policyChoice(flags: PolicyFlags, configured: ConfiguredPolicy = {}): PolicyChoice {
  if (flags.policy !== undefined && flags.baseUrl !== undefined) {
    throw invalid('Pass either --policy or --base-url: one policy answers all model calls.')
  }
  const forEndpoint = flags.model !== undefined || flags.apiKeyEnv !== undefined
  if (flags.policy !== undefined && forEndpoint) {
    throw invalid('--model and --api-key-env belong to an endpoint: leave them out with --policy.')
  }
  if (flags.policy !== undefined) return moduleChoice(flags.policy)

  const endpoint = configured.policy?.kind === 'endpoint' ? configured.policy : undefined
  const baseUrl = flags.baseUrl ?? endpoint?.baseUrl
  if (baseUrl !== undefined) {
    const model = flags.model ?? endpoint?.model ?? configured.model
    if (model === undefined) {
      throw invalid('Pass --model: the endpoint has to know which one to ask.')
    }
    // The key of one endpoint is not for another.
    const inherited = flags.baseUrl === undefined ? endpoint?.apiKeyEnv : undefined
    return { kind: 'endpoint', baseUrl, model, apiKeyEnv: flags.apiKeyEnv ?? inherited ?? null }
  }
  if (forEndpoint) {
    throw invalid('--model and --api-key-env belong to an endpoint: pass --base-url as well.')
  }
  if (configured.policy?.kind === 'module') return configured.policy
  throw invalid(
    `Nobody is named to answer the model calls. Pass --base-url <url> --model <name> for an OpenAI-compatible endpoint, or --policy <module>${configured.elsewhere ?? ''}.`,
  )
}

/** A policy in a module, by the name of its file. */
export function moduleChoice(module: string): PolicyChoice {
  return { kind: 'module', module, file: path.resolve(module) }
}

/** @throws OsmosisError with code `invalid_config` or `invalid_entrypoint` */
export async function openPolicy(
  choice: PolicyChoice,
  environment: NodeJS.ProcessEnv,
): Promise<ChosenPolicy> {
  if (choice.kind === 'module') return modulePolicy(choice.file, choice.module)
  const { baseUrl, model } = choice
  const apiKey = choice.apiKeyEnv === null ? undefined : readKey(choice.apiKeyEnv, environment)
  const policy = upstreamPolicy({ baseUrl, model, ...(apiKey === undefined ? {} : { apiKey }) })
  return chosen(policy, model)
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

function readKey(name: string, environment: NodeJS.ProcessEnv): string {
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
