import { preflightPolicy, providerOf } from '@osmosis/models'

import type { ChosenPolicy, PolicyChoice } from '../choose-policy.ts'
import type { ComparedModels } from './compared-models.ts'

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
