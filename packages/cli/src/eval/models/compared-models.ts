import { OsmosisError } from '@osmosis/core'
import { providerOf, preflightPolicy } from '@osmosis/models'

import type { EvalRunFlags } from '../run.ts'
import {
  openPolicy,
  policyChoice,
  type ChosenPolicy,
  type PolicyChoice,
  type PolicySurroundings,
} from '../../inputs/choose-policy.ts'

/** The models of an evaluation. */
export interface ComparedModels {
  readonly primary: ChosenPolicy
  /** Undefined without a baseline. */
  readonly baseline: ChosenPolicy | undefined
}

/**
 * Finds the model under evaluation and its baseline.
 *
 * @param checkpoint - evaluated instead, without a baseline
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function chooseModels(
  flags: EvalRunFlags,
  surroundings: PolicySurroundings,
  environment: NodeJS.ProcessEnv,
  checkpoint?: ChosenPolicy,
): Promise<ComparedModels> {
  if (checkpoint !== undefined) return { primary: checkpoint, baseline: undefined }
  const primary = policyChoice(flags, surroundings)
  const baseline = baselineChoice(flags, primary, surroundings)
  if (baseline !== undefined && isSame(primary, baseline)) {
    const name = baseline.kind === 'module' ? baseline.module : baseline.model
    throw invalid(`The baseline ${name} is the model under evaluation itself: name another model.`)
  }
  return {
    primary: await openPolicy(primary, environment),
    baseline: baseline && (await openPolicy(baseline, environment)),
  }
}

/** Undefined without a baseline. */
function baselineChoice(
  flags: EvalRunFlags,
  primary: PolicyChoice,
  surroundings: PolicySurroundings,
): PolicyChoice | undefined {
  const { baselinePolicy, baselineModel: model, baselineBaseUrl, baselineApiKeyEnv } = flags
  if (model === undefined) {
    if (baselineBaseUrl !== undefined) throw needsModel('--baseline-base-url')
    if (baselineApiKeyEnv !== undefined) throw needsModel('--baseline-api-key-env')
    if (baselinePolicy === undefined) return undefined
    return policyChoice({ policy: baselinePolicy }, surroundings)
  }
  if (baselinePolicy !== undefined) {
    throw invalid('Pass either --baseline-policy or --baseline-model: there is one baseline.')
  }
  const apiKeyEnv = baselineApiKeyEnv ?? null
  // The key of one endpoint is never sent to another.
  if (baselineBaseUrl !== undefined) {
    return { kind: 'endpoint', baseUrl: baselineBaseUrl, model, apiKeyEnv }
  }
  if (primary.kind !== 'endpoint') {
    if (providerOf(model) !== undefined) {
      return policyChoice(
        { model, ...(baselineApiKeyEnv && { apiKeyEnv: baselineApiKeyEnv }) },
        {
          ...surroundings,
          workspace: { ...surroundings.workspace, defaultPolicy: null },
        },
      )
    }
    throw invalid('--baseline-model belongs to an endpoint: pass --baseline-base-url as well.')
  }
  return { ...primary, model, apiKeyEnv: apiKeyEnv ?? primary.apiKeyEnv }
}

function isSame(one: PolicyChoice, other: PolicyChoice): boolean {
  if (one.kind === 'module') return other.kind === 'module' && one.file === other.file
  if (one.kind === 'provider') return other.kind === 'provider' && one.model === other.model
  if (one.kind !== 'endpoint' || other.kind !== 'endpoint') return false
  return one.model === other.model && addressOf(one.baseUrl) === addressOf(other.baseUrl)
}

/** A normal form of the base URL. */
function addressOf(baseUrl: string): string {
  return new URL(baseUrl).href.replace(/\/+$/, '')
}

function needsModel(flag: string): OsmosisError {
  return invalid(`${flag} needs --baseline-model.`)
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/**
 * Calls each model of an evaluation once, before the run costs anything. A policy module is code of the
 * workspace and is not called.
 *
 * @param warn - receives problems that may be temporary
 * @throws OsmosisError with code `policy_http_error` or `policy_unreachable`, see `preflightPolicy`
 */
export async function preflightModels(
  { primary, baseline }: ComparedModels,
  warn: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const models = [primary, baseline].flatMap((chosen) => chosen ?? [])
  const warnings = await Promise.all(models.map((chosen) => preflight(chosen, signal)))
  for (const warning of warnings) if (warning !== null) warn(`warning: ${warning}`)
}

async function preflight(
  { policy, choice }: ChosenPolicy,
  signal: AbortSignal,
): Promise<string | null> {
  if (choice.kind === 'module' || choice.kind === 'checkpoint') return null
  return preflightPolicy(policy, { ...placeOf(choice), signal })
}

function placeOf(choice: Exclude<PolicyChoice, { kind: 'module' | 'checkpoint' }>): {
  endpoint: string
  keyVariable: string | null
} {
  if (choice.kind === 'provider') {
    const provider = providerOf(choice.model)?.provider
    const keyVariable = choice.apiKeyEnv ?? provider?.keyVariable ?? null
    return { endpoint: provider?.name ?? choice.model, keyVariable }
  }
  return { endpoint: withoutKeys(choice.baseUrl), keyVariable: choice.apiKeyEnv }
}

/** A controller or a trainer, which sends the rollouts of an evaluation. */
interface Sender<Order, Options, Outcome> {
  readonly url: string
  run(order: Order, options: Options): Promise<Outcome>
}

interface SentOptions<Outcome> {
  readonly onTerminal?: (outcome: Outcome) => void | Promise<void>
}

/**
 * Replaces the address of this process, which is the endpoint of rollouts, by that of the model in error
 * messages.
 */
export function namingEndpoint<
  Order,
  Outcome extends { readonly errorMessage: string | null },
  Options extends SentOptions<Outcome>,
>(
  sender: Sender<Order, Options, Outcome>,
  { choice, name }: ChosenPolicy,
): { run(order: Order, options: Options): Promise<Outcome> } {
  const start = sender.url.replaceAll(/[.[\]]/g, String.raw`\$&`)
  const own = new RegExp(`${start}/v1/(?:rollouts/[^/\\s]+/)?chat/completions`, 'g')
  const endpoint = choice.kind === 'endpoint' ? withoutKeys(choice.baseUrl) : name
  const named = (outcome: Outcome): Outcome => ({
    ...outcome,
    errorMessage: outcome.errorMessage?.replaceAll(own, () => endpoint) ?? null,
  })
  return {
    async run(order, options) {
      const { onTerminal } = options
      const hooks = onTerminal && { onTerminal: (outcome: Outcome) => onTerminal(named(outcome)) }
      return named(await sender.run(order, { ...options, ...hooks }))
    },
  }
}

/** The address of an endpoint. User info and query may contain keys. */
function withoutKeys(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl)
  return `${origin}${pathname.replace(/\/$/, '')}`
}
