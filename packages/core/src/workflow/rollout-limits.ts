import { OsmosisError } from '../errors.ts'
import type { ChatUsage } from '../policy/chat-completion.ts'

/**
 * Limits on one rollout, over all of its samples. The model call after the one that reaches a limit ends the rollout
 * with the samples so far, whose `extraFields.limit_reached` names the limit.
 */
export interface RolloutLimits {
  /** Number of model calls. */
  readonly modelCalls?: number
  /** Prompt and completion tokens of all calls, as the policy reports them. */
  readonly totalTokens?: number
  /** US dollars: what the policy reports as `usage.cost`, else by `usdPerMillionTokens`. */
  readonly costUsd?: number
  /** The prices for `costUsd`. */
  readonly usdPerMillionTokens?: { readonly prompt: number; readonly completion: number }
  /** Time that `run()` may take, after which it is ended at once. Seconds. */
  readonly seconds?: number
  /** `grade` the samples so far, or `remove` them from training ungraded. Default: `grade`. */
  readonly whenReached?: 'grade' | 'remove'
}

/** What a limit is checked by. Servers may send anything. */
type SentUsage = Readonly<Partial<Record<'prompt_tokens' | 'completion_tokens' | 'cost', unknown>>>

const countsOfTokens = 'prompt_tokens and completion_tokens as numbers'

/** The limits that can be reached. */
export type RolloutLimit = 'modelCalls' | 'totalTokens' | 'costUsd' | 'seconds'

const units: Record<RolloutLimit, string> = {
  modelCalls: 'model calls',
  totalTokens: 'tokens',
  costUsd: 'US dollars',
  seconds: 'seconds',
}

/**
 * Checks the limits of a config.
 *
 * @param of - the owner of the limits, for error messages
 * @throws OsmosisError with code `invalid_config`
 */
export function assertRolloutLimits(of: string, limits: RolloutLimits | undefined): void {
  if (limits === undefined) return
  const refuse = (name: string, must: string, value: unknown): never => {
    const got = JSON.stringify(value) ?? String(value)
    throw new OsmosisError('invalid_config', `rolloutLimits.${name} of ${of} ${must}, got ${got}.`)
  }
  for (const [name, value] of Object.entries(limits)) {
    if (value === undefined) continue
    if (name in units) {
      if (!(typeof value === 'number' && value > 0)) refuse(name, 'must be a number above 0', value)
    } else if (name === 'whenReached') {
      if (value !== 'grade' && value !== 'remove') refuse(name, 'must be grade or remove', value)
    } else if (name === 'usdPerMillionTokens') {
      const { prompt, completion } = Object(value) as { prompt?: unknown; completion?: unknown }
      if (!isCount(prompt) || !isCount(completion)) {
        refuse(name, 'must have the numbers prompt and completion', value)
      }
    } else {
      refuse(
        name,
        `is unknown: it takes ${Object.keys(units).join(', ')}, usdPerMillionTokens and whenReached`,
        value,
      )
    }
  }
}

/** Whether a sum of such values reaches a limit. A sum with anything else, such as `NaN`, may never reach one. */
function isCount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0
}

/** Counts what a rollout uses, and ends it when a limit is reached. */
export class RolloutBudget {
  readonly #limits: RolloutLimits
  readonly #end: (reason: OsmosisError) => void
  readonly #used = { modelCalls: 0, totalTokens: 0, costUsd: 0 }
  #reached: RolloutLimit | undefined
  #reason: OsmosisError | undefined

  /** @param end - ends the rollout; called once */
  constructor(limits: RolloutLimits, end: (reason: OsmosisError) => void) {
    this.#limits = limits
    this.#end = end
  }

  /** The limit that ended the rollout; undefined until then. */
  get reached(): RolloutLimit | undefined {
    return this.#reached
  }

  /**
   * Counts a model call that is about to begin.
   *
   * @throws OsmosisError with code `limit_reached`; `invalid_config` when an answer had no usage to check a limit by
   */
  begin(): void {
    for (const limit of ['modelCalls', 'totalTokens', 'costUsd'] as const) {
      if (this.#used[limit] >= (this.#limits[limit] ?? Infinity)) this.reach(limit)
    }
    if (this.#reason) throw this.#reason
    this.#used.modelCalls += 1
  }

  /** Counts the usage of an answer. */
  spend(usage: ChatUsage | null | undefined): void {
    const { totalTokens, costUsd, usdPerMillionTokens: price } = this.#limits
    if (totalTokens === undefined && costUsd === undefined) return
    if (!usage) {
      this.#fail(totalTokens === undefined ? 'costUsd' : 'totalTokens', 'usage')
      return
    }
    const { prompt_tokens: prompt, completion_tokens: completion, cost } = usage as SentUsage
    const areCounted = isCount(prompt) && isCount(completion)
    if (areCounted) this.#used.totalTokens += prompt + completion
    else if (totalTokens !== undefined) this.#fail('totalTokens', countsOfTokens)
    if (costUsd === undefined) return
    if (isCount(cost)) this.#used.costUsd += cost
    else if (price === undefined) this.#fail('costUsd', 'cost; set usdPerMillionTokens')
    else if (!areCounted) this.#fail('costUsd', countsOfTokens)
    else this.#used.costUsd += (prompt * price.prompt + completion * price.completion) / 1e6
  }

  /** Ends the rollout, unless it has ended already. */
  reach(limit: RolloutLimit): void {
    if (this.#reason) return
    this.#reached = limit
    const message = `The rollout reached its limit of ${this.#limits[limit]} ${units[limit]}.`
    this.#endWith(new OsmosisError('limit_reached', message))
  }

  #fail(limit: RolloutLimit, what: string): void {
    const message = `rolloutLimits.${limit} cannot be checked: the policy reports no ${what}.`
    if (this.#reason === undefined) this.#endWith(new OsmosisError('invalid_config', message))
  }

  #endWith(reason: OsmosisError): void {
    this.#reason = reason
    this.#end(reason)
  }
}
