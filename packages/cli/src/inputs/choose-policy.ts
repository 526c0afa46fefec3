import { upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import {
  findWorkspaceRoot,
  readWorkspaceConfig,
  type PolicyConfig,
  type WorkspaceConfig,
} from '@osmosis/eval'
import { providerModel, providerOf } from '@osmosis/models'

import { hideKeys, hideSecrets, resolvePath, workingFolder } from '../command/command-context.ts'
import type { PolicyFlags } from '../command/flags.ts'
import { invalid, invalidEntrypoint } from '../command/wrong-use.ts'
import { loadModule, moduleFile } from './load-module.ts'

/** The selected policy: a module that exports one, or a model of an endpoint or a provider. */
export type PolicyChoice =
  | { readonly kind: 'module'; readonly module: string; readonly file: string }
  | {
      readonly kind: 'endpoint'
      readonly baseUrl: string
      readonly model: string
      /** Null: send no key. */
      readonly apiKeyEnv: string | null
    }
  | {
      readonly kind: 'provider'
      /** `<provider>/<model>`. */
      readonly model: string
      /** Null: of a provider without one. */
      readonly apiKeyEnv: string | null
      /** Folder from which packages of providers are resolved. */
      readonly folder: string
      /** Whether nobody named a policy, so that it is the model of the config. Default: false. */
      readonly isImplied?: true
    }
  | {
      readonly kind: 'checkpoint'
      /** The base model and the version of the policy: `<model>@12`. */
      readonly model: string
      /** Absolute. */
      readonly folder: string
    }

/** An open policy and its name in results. The caller disposes of it. */
export interface ChosenPolicy extends AsyncDisposable {
  readonly policy: PolicyModel
  readonly name: string
  /** Key for its endpoint; undefined without a key. */
  readonly apiKey: string | undefined
  readonly choice: PolicyChoice
}

/** What a policy is chosen from besides the flags. */
export interface PolicyDefaults {
  readonly workspace: WorkspaceConfig
  /** Default name of the model. */
  readonly model?: string
  /** Folder from which packages of providers are resolved. Default: the working folder. */
  readonly folder?: string
}

/** Who watches an endpoint. */
export interface EndpointWatch {
  /** Gets the headers of each of its answers. */
  readonly onHeaders?: (headers: Headers) => void
}

/**
 * Finds and opens the policy that flags or the workspace name.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function choosePolicy(
  flags: PolicyFlags,
  environment: NodeJS.ProcessEnv,
  watch: EndpointWatch = {},
): Promise<ChosenPolicy> {
  const choice = policyChoice(flags, { workspace: await currentWorkspace() })
  return openPolicy(choice, environment, watch)
}

/** The config of the workspace that the working folder belongs to; empty outside of one. */
export async function currentWorkspace(): Promise<WorkspaceConfig> {
  const root = await findWorkspaceRoot(resolvePath('osmosis.toml'))
  return root === undefined
    ? { policies: new Map(), prices: new Map(), defaultPolicy: null, queue: null }
    : readWorkspaceConfig(root)
}

/**
 * Selects the policy: by the flags first, then by the default of the workspace.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function policyChoice(flags: PolicyFlags, defaults: PolicyDefaults): PolicyChoice {
  if (flags.policy !== undefined && flags.baseUrl !== undefined) {
    throw invalid('Pass either --policy or --base-url: one policy answers all model calls.')
  }
  const { model, apiKeyEnv } = flags
  if (flags.baseUrl !== undefined) {
    return endpointChoice({ baseUrl: flags.baseUrl, model: null, apiKeyEnv: null })
  }
  const name = flags.policy ?? defaults.workspace.defaultPolicy
  const policy = name === null ? undefined : namedPolicy(name, defaults.workspace)
  if (policy?.kind === 'endpoint') return endpointChoice(policy)
  if (policy?.kind === 'provider') return providerChoice(model ?? policy.model, policy.apiKeyEnv)
  const named = model ?? (policy === undefined ? defaults.model : undefined)
  if (flags.policy === undefined && named !== undefined && providerOf(named) !== undefined) {
    const choice = providerChoice(named, null)
    return model === undefined ? { ...choice, isImplied: true } : choice
  }
  if (model !== undefined || apiKeyEnv !== undefined) {
    const instead =
      flags.policy === undefined
        ? 'pass --base-url as well, or a model of a provider such as openai/gpt-5-mini'
        : 'leave them out with --policy'
    throw invalid(`--model and --api-key-env belong to an endpoint: ${instead}.`)
  }
  if (policy !== undefined) return policy
  throw invalid(`No model is named for the model calls. ${howToName}`)

  function providerChoice(requested: string, configuredKey: string | null): ProviderChoice {
    const { folder = workingFolder() } = defaults
    const usual = providerOf(requested)?.provider.keyVariable ?? null
    const key = apiKeyEnv ?? configuredKey ?? usual
    return { kind: 'provider', model: requested, apiKeyEnv: key, folder }
  }

  function endpointChoice(
    endpoint: Pick<Extract<PolicyConfig, { kind: 'endpoint' }>, 'baseUrl' | 'model' | 'apiKeyEnv'>,
  ): PolicyChoice {
    const requested = model ?? endpoint.model ?? defaults.model
    if (requested === undefined) {
      throw invalid('Pass --model: the endpoint needs the name of a model.')
    }
    const { baseUrl } = endpoint
    const key = apiKeyEnv ?? endpoint.apiKeyEnv
    return { kind: 'endpoint', baseUrl, model: requested, apiKeyEnv: key }
  }
}

const howToName =
  'Pass --base-url <url> --model <name> for an OpenAI-compatible endpoint, or --model <provider>/<model>, or --policy <name or module>, or name a default_policy in osmosis.toml.'

type ProviderChoice = Extract<PolicyChoice, { kind: 'provider' }>

/**
 * A policy by its name in `osmosis.toml`, else the policy of a module.
 *
 * @throws OsmosisError with code `invalid_config` when neither exists
 */
function namedPolicy(name: string, { policies }: WorkspaceConfig): PolicyConfig {
  const policy = policies.get(name)
  if (policy !== undefined) return policy
  const file = resolvePath(name)
  // A name that looks like a path is a path; loading it reports a missing file.
  if (/[./\\]/.test(name) || isModule(name)) return { kind: 'module', module: name, file }
  const names = [...policies.keys()].join(', ') || 'none'
  throw invalid(
    `There is neither a policy nor a module named ${name}. Policies in osmosis.toml: ${names}.`,
  )
}

function isModule(name: string): boolean {
  try {
    return moduleFile('policy', name) !== ''
  } catch {
    return false
  }
}

/** @throws OsmosisError with code `invalid_config` or `invalid_entrypoint` */
export async function openPolicy(
  choice: PolicyChoice,
  environment: NodeJS.ProcessEnv,
  { onHeaders }: EndpointWatch = {},
): Promise<ChosenPolicy> {
  if (choice.kind === 'module') return modulePolicy(choice)
  if (choice.kind === 'provider') return providerPolicy(choice, environment)
  if (choice.kind === 'checkpoint') throw new TypeError('Checkpoints are opened by their learner.')
  const { baseUrl, model } = choice
  hideKeys(...keysIn(baseUrl))
  const apiKey = choice.apiKeyEnv === null ? undefined : readKey(choice.apiKeyEnv, environment)
  const key = apiKey === undefined ? {} : { apiKey }
  const policy = upstreamPolicy({ baseUrl, model, onHeaders, ...key })
  return chosen(policy, { name: model, choice, apiKey })
}

async function providerPolicy(
  choice: ProviderChoice,
  environment: NodeJS.ProcessEnv,
): Promise<ChosenPolicy> {
  const { model, apiKeyEnv, folder, isImplied = false } = choice
  if (isImplied && apiKeyEnv !== null && !environment[apiKeyEnv]) {
    throw invalid(
      `No policy is named for the model calls. ${howToName} Without them the model of the config is asked, model_path = "${model}", and ${apiKeyEnv} with its key is not set.`,
    )
  }
  const provider = providerOf(model)?.provider
  const apiKey = provider && apiKeyEnv ? readKey(apiKeyEnv, environment) : undefined
  const baseUrl = provider && environment[`${provider.name.toUpperCase()}_BASE_URL`]
  const policy = await providerModel(model, { folder, apiKey, baseUrl })
  return chosen(policy, { name: model, choice, apiKey })
}

async function modulePolicy(
  choice: Extract<PolicyChoice, { kind: 'module' }>,
): Promise<ChosenPolicy> {
  const { file, module: name } = choice
  const exports = await loadModule('policy', file)
  const policies = new Map<unknown, string>()
  for (const [key, value] of Object.entries(exports)) {
    if (isPolicyModel(value)) policies.set(value, policies.get(value) ?? key)
  }
  const [policy, ...others] = policies.keys()
  if (isPolicyModel(policy) && others.length === 0) {
    return chosen(policy, { name, choice, apiKey: undefined })
  }
  throw invalidEntrypoint(
    `The policy module ${name} should export one policy, e.g. what scriptedPolicy() returns; it exports ${[...policies.values()].join(', ') || 'none'}.`,
  )
}

function chosen(
  policy: PolicyModel,
  facts: Pick<ChosenPolicy, 'name' | 'apiKey' | 'choice'>,
): ChosenPolicy {
  return { policy, ...facts, [Symbol.asyncDispose]: async () => policy.close?.() }
}

function isPolicyModel(value: unknown): value is PolicyModel {
  return typeof (value as Partial<PolicyModel> | null | undefined)?.respond === 'function'
}

/**
 * The password of a URL, and the values of its query whose names say that they are keys. Others may be words that answers contain
 * too, such as the name of a model.
 */
function keysIn(baseUrl: string): string[] {
  const { password, searchParams } = new URL(baseUrl)
  const named = /key|token|secret|password|auth|sig|code/i
  return [
    password,
    ...[...searchParams].flatMap(([name, value]) => (named.test(name) ? value : [])),
  ]
}

function readKey(name: string, environment: NodeJS.ProcessEnv): string {
  if (!/^[A-Za-z_]\w*$/.test(name)) {
    throw invalid(
      '--api-key-env, or api_key_env in osmosis.toml, has to be the name of an environment variable: letters, digits and "_". What it is now is not printed, because it may be a key.',
    )
  }
  const key = environment[name]
  if (!key) {
    throw invalid(
      `The key of the policy endpoint is missing: the environment variable ${name} is not set. Set it, or write it in .env.`,
    )
  }
  // HTTP headers allow no other characters. The message must not contain the key.
  if (/^[\x21-\x7e]+$/.test(key)) {
    hideSecrets({ [name]: key })
    return key
  }
  throw invalid(
    `The key in ${name} must be visible ASCII characters, without spaces or line breaks.`,
  )
}
