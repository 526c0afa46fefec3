import { providerOf, preflightPolicy } from '@osmosis/models'

import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
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
  const endpoint =
    choice.kind === 'provider'
      ? (providerOf(choice.model)?.provider.name ?? choice.model)
      : withoutKeys(choice.baseUrl)
  const warning = await preflightPolicy(policy, { endpoint, keyVariable: choice.apiKeyEnv, signal })
  if (warning !== null) warn(`warning: ${warning}`)
}
