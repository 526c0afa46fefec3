import type { ChatCompletion, ChatUsage } from '@osmosis/core/policy'

/** What a model costs, in US dollars per million tokens. */
export interface ModelPrice {
  /** Of prompt tokens. */
  readonly input: number
  /** Of completion tokens, thinking included. */
  readonly output: number
  /** Of prompt tokens that were in the provider's cache. Null: as `input`. */
  readonly cached: number | null
}

/**
 * What one answer cost, in US dollars: what the endpoint says itself (`cost_usd` or `cost` of its
 * usage), else its tokens by the price. Null when that is not known.
 */
export function costOf(usage: ChatUsage | undefined, price: ModelPrice | undefined): number | null {
  if (usage === undefined) return null
  const said = [usage['cost_usd'], usage['cost']].find((cost) => amount(cost) !== null)
  if (said !== undefined) return amount(said)
  const { prompt_tokens: prompt, completion_tokens: completion } = usage
  if (price === undefined || amount(prompt) === null || amount(completion) === null) return null
  const details = usage['prompt_tokens_details'] as { cached_tokens?: unknown } | null | undefined
  const cached = Math.min(amount(details?.cached_tokens) ?? 0, prompt)
  const { input, output } = price
  const dollars = (prompt - cached) * input + cached * (price.cached ?? input) + completion * output
  return dollars / 1_000_000
}

/** The answer with its cost in the usage, where that is known: documents take it from there. */
export function withCost(completion: ChatCompletion, cost: number | null): ChatCompletion {
  const { usage } = completion
  if (cost === null || usage === undefined) return completion
  return { ...completion, usage: { ...usage, cost_usd: cost } }
}

function amount(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
}
