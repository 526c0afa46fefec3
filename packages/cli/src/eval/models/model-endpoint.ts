import { providerOf, preflightPolicy } from '@osmosis/models'

import type { ChosenPolicy, PolicyChoice } from '../../inputs/choose-policy.ts'
import { withoutKeys } from '../../inputs/policy-advice.ts'

/**
 * Calls the model of an evaluation once, before the run costs anything. A policy module is code of the
 * workspace and is not called.
 *
 * @param warn - receives a problem that may be temporary
 * @throws OsmosisError with code `policy_http_error` or `policy_unreachable`, see `preflightPolicy`
 */
export async function preflightModel(
  { policy, choice }: ChosenPolicy,
  warn: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  if (choice.kind === 'module' || choice.kind === 'checkpoint') return
  const warning = await preflightPolicy(policy, { ...placeOf(choice), signal })
  if (warning !== null) warn(`warning: ${warning}`)
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
