import { OsmosisError } from '@osmosis/core'
import { providerOf, preflightPolicy } from '@osmosis/models'

import {
  openPolicy,
  policyChoice,
  type ChosenPolicy,
  type PolicyChoice,
  type PolicySurroundings,
} from '../../inputs/choose-policy.ts'
import type { EvalRunFlags } from '../run.ts'

/** Who is evaluated. */
export interface ComparedModels {
  readonly primary: ChosenPolicy
  /** Undefined when there is nothing to compare with. */
  readonly baseline: ChosenPolicy | undefined
}

/**
 * Finds the model under evaluation, and the one it is compared with.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function chooseModels(
  flags: EvalRunFlags,
  surroundings: PolicySurroundings,
  environment: NodeJS.ProcessEnv,
): Promise<ComparedModels> {
  const primary = policyChoice(flags, surroundings)
  const baseline = baselineChoice(flags, primary, surroundings)
  if (baseline !== undefined && isSame(primary, baseline)) {
    const name = baseline.kind === 'module' ? baseline.module : baseline.model
    throw invalid(`The baseline ${name} is the model under evaluation itself: name another one.`)
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
  // The key of one endpoint is not for another.
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
  if (other.kind !== 'endpoint') return false
  return one.model === other.model && addressOf(one.baseUrl) === addressOf(other.baseUrl)
}

/** The base URL in the one spelling that all spellings of it have in common. */
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
 * Asks each model of an evaluation once, before anything is spent on it. A policy of a module is code of
 * the workspace, and is not asked.
 *
 * @param warn - hears of trouble that may pass
 * @throws OsmosisError with code `policy_http_error` or `policy_unreachable`, see `preflightPolicy`
 */
export async function preflightModels(
  { primary, baseline }: ComparedModels,
  warn: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const asked = [primary, baseline].flatMap((chosen) => chosen ?? [])
  const warnings = await Promise.all(asked.map((chosen) => preflight(chosen, signal)))
  for (const warning of warnings) if (warning !== null) warn(`warning: ${warning}`)
}

async function preflight(
  { policy, choice }: ChosenPolicy,
  signal: AbortSignal,
): Promise<string | null> {
  if (choice.kind === 'module') return null
  return preflightPolicy(policy, { ...placeOf(choice), signal })
}

function placeOf(choice: Exclude<PolicyChoice, { kind: 'module' }>): {
  endpoint: string
  keyVariable: string | null
} {
  if (choice.kind === 'provider') {
    const provider = providerOf(choice.model)?.provider
    const keyVariable = choice.apiKeyEnv ?? provider?.keyVariable ?? null
    return { endpoint: provider?.name ?? choice.model, keyVariable }
  }
  // Keys also travel in user info and query strings.
  const { origin, pathname } = new URL(choice.baseUrl)
  return { endpoint: `${origin}${pathname.replace(/\/$/, '')}`, keyVariable: choice.apiKeyEnv }
}
