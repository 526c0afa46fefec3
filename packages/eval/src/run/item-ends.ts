import { errorMessage, isOsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import { rolloutLossSchema } from '@osmosis/runtime/wire'

import type { ItemEvent } from '../analysis/item-event.ts'
import { formatDuration } from '../analysis/number-text.ts'
import { trajectoryFacts } from '../analysis/trajectory-facts.ts'
import { toRunRow } from '../dataset/run-row.ts'
import { scoreItem } from '../scoring/score-item.ts'
import { itemKey } from '../store/run-files.ts'
import { toEndedItem, type ItemScores } from './ended-item.ts'
import type { EvaluatedModel, EvaluationOptions, EvaluationProgress } from './evaluation-options.ts'
import type { EvaluationState } from './evaluation-state.ts'
import { FailureLimit } from './failure-limit.ts'
import type { EvaluationItem, ItemOutcome, ModelTag } from './item-runner.ts'
import { nothingKept } from './kept-item.ts'
import { CostBudget, costOfItems } from './run-cost.ts'
import type { StopSwitch } from './stop-switch.ts'

/** So many rollouts in a row lost to the policy are no accident. */
const mostLosses = 20

/**
 * Items that failed because the policy was down. They have failed for good only when it
 * answers again: as long as it does not, they wait here and count for nothing.
 */
class PolicyLosses<Item> {
  #held: Item[] = []
  #message = ''

  /** Takes an item that was lost; `message` says what the policy answered last. */
  add(item: Item, message: string): void {
    this.#held.push(item)
    this.#message = message
  }

  /** Why nothing more should be asked of the policy; undefined as long as something should. */
  get verdict(): string | undefined {
    if (this.#held.length < mostLosses) return undefined
    return `${this.#held.length} rollouts in a row were lost to the policy. ${this.#message}`
  }

  /** The items that have failed after all; they are not held any longer. */
  release(): Item[] {
    return this.#held.splice(0)
  }
}

/** What it takes to bring items to their end. */
export interface ItemEndsOptions extends Pick<
  EvaluationOptions,
  | 'store'
  | 'scorers'
  | 'needsReward'
  | 'redact'
  | 'maxCostUsd'
  | 'failOnError'
  | 'patienceMs'
  | 'runAgain'
  | 'onItem'
  | 'onProgress'
> {
  readonly models: ReadonlyMap<ModelTag, EvaluatedModel>
  readonly state: EvaluationState
  readonly stop: StopSwitch
  /** Takes every event that the store has. */
  readonly onKept?: ((event: ItemEvent) => void) | undefined
  readonly inFlight: () => EvaluationProgress['inFlight']
}

/** So often an item is in a worker that ends, until it has failed. */
const mostTimesLost = 3

interface EndedRun {
  readonly item: EvaluationItem
  readonly outcome: ItemOutcome
}

/**
 * Runs items and decides what their ends are: an item that has ended for good is scored, kept in the
 * store and only then acknowledged and announced; one that ended because the whole evaluation has to
 * stop stays pending; one whose end says nothing about its agent is run again.
 */
export class ItemEnds {
  readonly #options: ItemEndsOptions
  readonly #losses = new PolicyLosses<EndedRun>()
  readonly #budget: CostBudget | undefined
  readonly #failures: FailureLimit
  /** Events that were not announced yet. */
  readonly #kept: { readonly event: ItemEvent; readonly isNew: boolean }[] = []
  /** When an item was to be run again for the first time since one was kept. */
  #againSince: number | undefined
  /** How often items were lost with what ran them, by model, row and attempt. */
  readonly #lost = new Map<string, number>()

  constructor(options: ItemEndsOptions) {
    this.#options = options
    const { maxCostUsd, store, failOnError, state, runAgain = () => false } = options
    const earlier = costOfItems(store?.events.values() ?? [])
    this.#budget = maxCostUsd === undefined ? undefined : new CostBudget(maxCostUsd, earlier)
    this.#failures = new FailureLimit(failOnError, state.total)
    for (const event of store?.events.values() ?? []) {
      if (!runAgain(event)) this.#failures.add(event)
    }
  }

  /**
   * Runs an item to its end, whatever that is. Resolves to whether it is to be run again. Throws what a
   * callback throws.
   */
  async run(item: EvaluationItem): Promise<boolean> {
    const { stop } = this.#options
    let ended: Promise<boolean> | undefined
    let again = false
    // The runner's hook and its result say the same; the first one brings the end in.
    const end = async (outcome: ItemOutcome): Promise<void> => {
      try {
        again = await (ended ??= this.#end({ item, outcome }))
      } catch (error) {
        ended = undefined
        throw error
      }
    }
    try {
      const outcome = await this.#outcomeOf(item, end)
      if (outcome !== undefined) await end(outcome)
    } catch (error) {
      // Whoever stopped it all has said why.
      if (!stop.signal.aborted) throw error
    }
    this.#announce()
    if (this.#losses.verdict !== undefined) stop.halt(this.#losses.verdict)
    return again
  }

  /** Whether something has stopped it all, such as a policy that can answer nothing. */
  get halted(): boolean {
    for (const [tag, { policy }] of this.#options.models) {
      if (policy && policy.failure !== null) this.#halt(tag, policy.failure)
    }
    const exceeded = this.#budget?.verdict ?? this.#failures.verdict
    if (exceeded !== undefined) this.#options.stop.halt(exceeded)
    return this.#options.stop.reason !== undefined
  }

  /** Nothing runs any more: what was lost to the policy has failed. */
  async settle(): Promise<void> {
    await this.#keepLosses()
    this.#announce()
  }

  /** Undefined for an item that stays pending. */
  async #outcomeOf(
    item: EvaluationItem,
    onEnd: (outcome: ItemOutcome) => Promise<void>,
  ): Promise<ItemOutcome | undefined> {
    const { stop, models, scorers = [], needsReward = scorers.length === 0 } = this.#options
    const startedAt = performance.now()
    try {
      const options = { signal: stop.signal, needsReward, onEnd }
      return await models.get(item.model)?.runner.run(item, options)
    } catch (error) {
      if (stop.signal.aborted) return undefined
      switch (classifyError(error)) {
        case 'item-failed':
          return refused(error, performance.now() - startedAt)
        case 'halt':
          stop.halt(error)
          return undefined
        case 'halt-and-cancel':
          stop.cancel(error)
          return undefined
      }
    }
  }

  /** Resolves to whether the item is to be run again. */
  async #end(run: EndedRun): Promise<boolean> {
    const { item, outcome } = run
    const { trouble } = outcome.kept
    const known = this.#options.models.get(item.model)?.policy?.failure ?? null
    const lasting = trouble?.isLasting ? (known ?? trouble.message) : known
    if (lasting !== null && (trouble?.isLasting || outcome.status === 'failed')) {
      this.#halt(item.model, lasting)
    } else if (trouble?.isRateLimit && outcome.status === 'failed') {
      return this.#runsAgain(outcome, trouble.message)
    } else if (this.#isLost(run)) {
      return this.#runsAgain(outcome, outcome.errorMessage ?? '')
    } else if (trouble !== null && outcome.status === 'failed') {
      this.#losses.add(run, trouble.message)
    } else {
      // The policy answers; a rollout that did not ask it does not know.
      if (outcome.usage !== null) await this.#keepLosses()
      await this.#keep(run)
    }
    return false
  }

  /** Whether what ran it took it along; not when that happens again and again, as with its own doing. */
  #isLost({ item, outcome }: EndedRun): boolean {
    if (!rolloutLossSchema.safeParse(outcome.errorType).success) return false
    const key = `${item.model} ${item.rowIndex} ${item.runIndex}`
    const times = (this.#lost.get(key) ?? 0) + 1
    this.#lost.set(key, times)
    return times < mostTimesLost
  }

  /** Not when that has gone on for too long: nothing more is started then. */
  #runsAgain({ kept }: ItemOutcome, why: string): boolean {
    // It was paid for, although nothing is kept of it.
    this.#budget?.add(trajectoryFacts(Object.values(kept.trajectories ?? {})))
    const { stop, patienceMs = 600_000 } = this.#options
    const now = performance.now()
    this.#againSince ??= now
    if (now - this.#againSince < patienceMs) return true
    stop.halt(`No rollout has ended for ${formatDuration(patienceMs)}. The last was lost: ${why}`)
    return false
  }

  /** For what the policy of a model answers. */
  #halt(tag: ModelTag, reason: string): void {
    const { models, stop } = this.#options
    stop.halt(models.size === 1 ? reason : `${tag}: ${reason}`)
  }

  async #keepLosses(): Promise<void> {
    for (const lost of this.#losses.release()) await this.#keep(lost)
  }

  async #keep({ item, outcome }: EndedRun): Promise<void> {
    const { scorers = [], store, models, redact = asItIs, stop, onKept } = this.#options
    // An eval function may not end, or not soon.
    const scores =
      scorers.length === 0
        ? unscored
        : await untilAborted(stop.signal, () => scoreItem(scorers, item.row, outcome))
    let event: ItemEvent
    let isNew = true
    try {
      const row = store?.manifest.rows[item.rowIndex] ?? toRunRow(item.row)
      const ended = toEndedItem(item, outcome, { row, scores, isCompared: models.size > 1, redact })
      isNew = !store?.events.has(itemKey(ended.event))
      event = (await store?.commit(ended)) ?? { ...ended.event, at: null, sat: null }
      onKept?.(event)
      this.#budget?.add(event)
      this.#failures.add(event)
    } catch (error) {
      stop.cancel(error)
      throw error
    }
    this.#againSince = undefined
    this.#kept.push({ event, isNew })
  }

  /** Says what has been kept; not earlier, because whoever hears of it may throw. */
  #announce(): void {
    const { onItem, onProgress, state, inFlight } = this.#options
    for (const { event: item, isNew } of this.#kept.splice(0)) {
      state.add(item, isNew)
      onItem?.(item)
      onProgress?.({ done: state.done, total: state.total, item, inFlight: inFlight() })
    }
  }
}

const unscored: ItemScores = { scores: {}, scoreErrors: {} }

function asItIs<T>(data: T): T {
  return data
}

/** The end of an item that the server would not take. */
function refused(error: unknown, durationMs: number): ItemOutcome {
  return {
    status: 'failed',
    reward: null,
    sampleRewards: {},
    samples: [],
    usage: null,
    durationMs,
    errorType: 'rollout_protocol_error',
    errorMessage: errorMessage(error),
    kept: nothingKept,
  }
}

/** What an error of sending one rollout means for the evaluation. */
type ErrorMeaning =
  /** The server refused this rollout; others may pass. */
  | 'item-failed'
  /** No further rollout has a chance, but those in progress may still come to their end. */
  | 'halt'
  /** There is nobody who could bring those in progress to their end. */
  | 'halt-and-cancel'

/**
 * Judges what `runRollout` threw. A wrong key is the server's 4xx too, but every further rollout
 * would be refused just the same.
 */
function classifyError(error: unknown): ErrorMeaning {
  if (!isOsmosisError(error)) return 'halt'
  if (error.code === 'invalid_request') return 'item-failed'
  if (error.code !== 'protocol_error') return 'halt'
  if (error.status === undefined) return 'halt-and-cancel'
  return error.status >= 400 && error.status < 500 ? 'item-failed' : 'halt'
}
