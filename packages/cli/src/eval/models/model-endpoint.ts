import { providerOf, preflightPolicy } from '@osmosis/models'

import type { ChosenPolicy, PolicyChoice } from '../../inputs/choose-policy.ts'

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
