import { shownUrl } from '@osmosis/core/http'

import type { ChosenPolicy } from './choose-policy.ts'

/** A controller or a trainer, which sends the rollouts of an evaluation. */
interface Sender<Order, Options, Outcome> {
  readonly url: string
  run(order: Order, options: Options): Promise<Outcome>
}

interface SentOptions<Outcome> {
  readonly onTerminal?: (outcome: Outcome) => void | Promise<void>
}

/** Advice of a rollout server about fields of the protocol, which the user of a command did not set. */
const keyAdvice =
  /(?<=[.!?] )(?:Check the API key that the rollout was sent with|The rollout was sent without an API key)(?: \(\w+\))?\.|(?<=[.!?] )Check the api_key of the rollout request\./g
const urlAdvice =
  /(?<=[.!?] )(?:chat_completions_url|server_url) is a base URL: "[^"]*" is appended to it\./g

/**
 * Replaces what a rollout server says of its policy, which is this process, by what the user knows of the model in error
 * messages: its address, and the flags that set its key and address.
 */
export function namingEndpoint<
  Order,
  Outcome extends { readonly errorMessage: string | null },
  Options extends SentOptions<Outcome>,
>(
  sender: Sender<Order, Options, Outcome>,
  chosen: ChosenPolicy,
): { run(order: Order, options: Options): Promise<Outcome> } {
  const { choice, name } = chosen
  const advice = policyAdvice(chosen)
  const start = sender.url.replaceAll(/[.[\]]/g, String.raw`\$&`)
  const own = new RegExp(`${start}/v1/(?:rollouts/[^/\\s]+/)?chat/completions`, 'g')
  const endpoint = choice.kind === 'endpoint' ? withoutKeys(choice.baseUrl) : name
  const named = (outcome: Outcome): Outcome => ({
    ...outcome,
    errorMessage:
      outcome.errorMessage
        ?.replaceAll(own, () => endpoint)
        .replaceAll(keyAdvice, () => advice(401))
        .replaceAll(urlAdvice, () => advice(404)) ?? null,
  })
  return {
    async run(order, options) {
      const { onTerminal } = options
      const hooks = onTerminal && { onTerminal: (outcome: Outcome) => onTerminal(named(outcome)) }
      return named(await sender.run(order, { ...options, ...hooks }))
    },
  }
}

/** What the user can do when the policy answers no call. */
export function policyAdvice({ choice }: ChosenPolicy): (status: number) => string {
  return (status) => {
    if (choice.kind === 'module') return `See the policy module ${choice.module}.`
    if (choice.kind === 'checkpoint') return `See the checkpoint ${choice.folder}.`
    const { model, apiKeyEnv } = choice
    const isEndpoint = choice.kind === 'endpoint'
    switch (status) {
      case 401:
      case 403:
        return apiKeyEnv === null
          ? 'No key was sent: name the variable that holds it with --api-key-env, or api_key_env in osmosis.toml.'
          : `Check the key in ${apiKeyEnv} (--api-key-env).`
      case 402:
      case 429:
        return 'Its account has nothing left to spend.'
      case 404:
        return `Check --model ${model}${isEndpoint ? ` and --base-url ${withoutKeys(choice.baseUrl)}` : ''}.`
      default:
        return isEndpoint
          ? `Is the endpoint ${withoutKeys(choice.baseUrl)} running? Check --base-url.`
          : `Can the provider of ${model} be reached from here?`
    }
  }
}

/** The address of an endpoint. User info and query may contain keys. */
export function withoutKeys(baseUrl: string): string {
  return shownUrl(baseUrl).replace(/\/$/, '')
}
