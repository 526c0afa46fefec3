import type { ChosenPolicy } from '../../inputs/choose-policy.ts'

/** What runs rollouts for an evaluation: a controller, or a trainer. */
interface Sender<Order, Options, Outcome> {
  readonly url: string
  run(order: Order, options: Options): Promise<Outcome>
}

interface SentOptions<Outcome> {
  readonly onTerminal?: (outcome: Outcome) => void | Promise<void>
}

/**
 * The same, with errors that name who was asked: rollouts know of the endpoint of this process alone, which
 * nobody has heard of.
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
  const asked = choice.kind === 'endpoint' ? withoutKeys(choice.baseUrl) : name
  const named = (outcome: Outcome): Outcome => ({
    ...outcome,
    errorMessage: outcome.errorMessage?.replaceAll(own, () => asked) ?? null,
  })
  return {
    async run(order, options) {
      const { onTerminal } = options
      const told = onTerminal && { onTerminal: (outcome: Outcome) => onTerminal(named(outcome)) }
      return named(await sender.run(order, { ...options, ...told }))
    },
  }
}

/** Keys also travel in user info and query strings. */
function withoutKeys(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl)
  return `${origin}${pathname.replace(/\/$/, '')}`
}
