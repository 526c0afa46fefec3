import { errorMessage, isOsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import { rolloutLossSchema } from '@osmosis/protocol/wire'

import { formatDuration } from '../analysis/figures/number-text.ts'
import { type ItemEvent, itemKey } from '../analysis/records/item-event.ts'
import { trajectoryFacts } from '../analysis/trajectory/trajectory-facts.ts'
import { toRunRow } from '../dataset/dataset-row.ts'
import type { EvaluationOptions, EvaluationProgress } from './evaluation-options.ts'
import type { EvaluationState } from './evaluation-state.ts'
import { toEndedItem, type ItemScores, emptyRecord } from './items/item-record.ts'
import type { EvaluationItem, ItemOutcome, ItemRecord } from './items/item-runner.ts'
import { scoreItem } from './items/scorer.ts'
import {
  CostBudget,
  costOfItems,
  FailureLimit,
  PolicyLosses,
  type StopSwitch,
} from './stop-conditions.ts'

/** Options of {@link ItemLifecycle}. */
export interface ItemLifecycleOptions extends Pick<
  EvaluationOptions,
  | 'model'
  | 'store'
  | 'scorers'
  | 'needsReward'
  | 'redact'
  | 'maxCostUsd'
  | 'failOnError'
  | 'failureAdvice'
  | 'patienceMs'
  | 'runAgain'
  | 'onItem'
  | 'onProgress'
> {
  readonly state: EvaluationState
  readonly stop: StopSwitch
  /** Receives every event after it was stored. */
  readonly onStored?: ((event: ItemEvent) => void) | undefined
  readonly inFlight: () => EvaluationProgress['inFlight']
}

/** An item that was lost this many times is not run again: it may be the cause. */
const maxTimesLost = 3

interface EndedRun {
  readonly item: EvaluationItem
  readonly outcome: ItemOutcome
}

/**
 * Runs items and decides their outcomes. An item with a final outcome is scored, stored, and only then
 * acknowledged and reported. An item that ended because the evaluation must stop stays pending. An item
 * whose outcome is unrelated to its agent is run again.
 */
export class ItemLifecycle {
  readonly #options: ItemLifecycleOptions
  readonly #losses = new PolicyLosses<EndedRun>()
  readonly #budget: CostBudget | undefined
  readonly #failures: FailureLimit
  /** Events that are stored but not reported yet. */
  readonly #unreported: { readonly event: ItemEvent; readonly isNew: boolean }[] = []
  /** When an item was first run again after the last one was stored. */
  #againSince: number | undefined
  /** Whether the policy has answered a rollout. */
  #hasAnswered = false
  /** Asks the policy whether it answers; rollouts that end together share the question. */
  #asking: Promise<boolean> | undefined
  /** How often items were lost with their worker, server or policy, by row and attempt. */
  readonly #lost = new Map<string, number>()

  constructor(options: ItemLifecycleOptions) {
    this.#options = options
    const { maxCostUsd, store, failOnError, failureAdvice, state, runAgain = () => false } = options
    const earlier = costOfItems(store?.events.values() ?? [])
    this.#budget = maxCostUsd === undefined ? undefined : new CostBudget(maxCostUsd, earlier)
    this.#failures = new FailureLimit(failOnError, state.total, failureAdvice)
    for (const event of store?.events.values() ?? []) {
      if (!runAgain(event)) this.#failures.add(event)
    }
  }

  /**
   * Runs an item and handles its outcome. Resolves to whether it must be run again. Throws what a callback
   * throws.
   */
  async run(item: EvaluationItem): Promise<boolean> {
    const { stop } = this.#options
    let ended: Promise<boolean> | undefined
    let again = false
    // The runner's hook and its result report the same outcome; the first one is handled.
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
      if (outcome === 'again') again = true
      else if (outcome !== undefined) await end(outcome)
    } catch (error) {
      // The reason of the stop was already reported.
      if (!stop.signal.aborted) throw error
    }
    this.#report()
    if (this.#losses.verdict !== undefined) stop.halt(this.#losses.verdict)
    return again
  }

  /** Stops the evaluation if the policy cannot answer, or a limit is reached. Returns whether it has stopped. */
  stopIfNeeded(): boolean {
    const { model, stop } = this.#options
    const reason = model.policy?.failure ?? this.#budget?.verdict ?? this.#failures.verdict
    if (reason !== undefined) stop.halt(reason)
    return stop.reason !== undefined
  }

  /** When no item is running any more, decides about items that were lost to the policy. */
  async settle(): Promise<void> {
    if (!(await this.#settleLosses())) this.#options.stop.halt(this.#losses.summary)
    this.#report()
  }

  /** Undefined for an item that stays pending, `again` for one that is run again. */
  async #outcomeOf(
    item: EvaluationItem,
    onEnd: (outcome: ItemOutcome) => Promise<void>,
  ): Promise<ItemOutcome | 'again' | undefined> {
    const { stop, model, scorers = [], needsReward = scorers.length === 0 } = this.#options
    const startedAt = performance.now()
    try {
      const options = { signal: stop.signal, needsReward, onEnd }
      return await model.runner.run(item, options)
    } catch (error) {
      if (stop.signal.aborted) return undefined
      switch (classifyError(error)) {
        case 'item-failed':
          return refused(error, performance.now() - startedAt)
        case 'lost':
          if (this.#countLoss(item) < maxTimesLost) {
            return this.#retryInTime(emptyRecord, errorMessage(error)) ? 'again' : undefined
          }
          stop.halt(error)
          return undefined
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
    const { trouble } = outcome.record
    const { policy } = this.#options.model
    const known = policy?.failure ?? null
    // Whoever knows how the policy is also knows when one that is away is gone.
    const isAway = trouble?.isAway === true && policy !== undefined
    const isLasting = trouble?.isLasting === true && !isAway
    const lasting = isLasting ? (known ?? trouble.message) : known
    if (lasting !== null && (isLasting || outcome.status === 'failed')) {
      this.#options.stop.halt(lasting)
      return false
    }
    const loss = lossOf(outcome, isAway)
    if (loss !== undefined && (!loss.isCounted || this.#countLoss(item) < maxTimesLost)) {
      return this.#retryInTime(outcome.record, loss.why)
    }
    if (trouble !== null && outcome.status === 'failed') {
      this.#losses.add(run, trouble.message)
      return false
    }
    // A rollout with model calls shows that the policy may answer again: the calls may be older than the losses.
    if (outcome.usage !== null && trouble === null) {
      this.#hasAnswered = true
      await this.#settleLosses()
    }
    await this.#store(run)
    return false
  }

  /** Counts that an item was lost once more. Returns how often it has been lost. */
  #countLoss({ rowIndex, runIndex }: EvaluationItem): number {
    const key = `${rowIndex} ${runIndex}`
    const times = (this.#lost.get(key) ?? 0) + 1
    this.#lost.set(key, times)
    return times
  }

  /**
   * Counts the cost of a lost item, which is not stored. If no item has ended for too long, stops the evaluation.
   *
   * @returns whether the item is to be run again
   */
  #retryInTime(record: ItemRecord, why: string): boolean {
    this.#budget?.add(trajectoryFacts(Object.values(record.trajectories ?? {})))
    const { stop, patienceMs = 600_000 } = this.#options
    const now = performance.now()
    this.#againSince ??= now
    if (now - this.#againSince < patienceMs) return true
    stop.halt(
      `No rollout has ended for ${formatDuration(patienceMs)}. The last one was lost: ${why}`,
    )
    return false
  }

  /** When the policy answers, what was lost to it has failed. Resolves to whether nothing is left undecided. */
  async #settleLosses(): Promise<boolean> {
    if (this.#losses.isEmpty) return true
    if (!(await this.#policyAnswers())) return false
    for (const lost of this.#losses.release()) await this.#store(lost)
    return true
  }

  async #policyAnswers(): Promise<boolean> {
    const { model, stop } = this.#options
    const ask = model.policy?.answers
    if (ask === undefined) return this.#hasAnswered
    this.#asking ??= ask(stop.signal).finally(() => (this.#asking = undefined))
    return this.#asking
  }

  async #store({ item, outcome }: EndedRun): Promise<void> {
    const { scorers = [], state, store, redact = unchanged, stop, onStored } = this.#options
    // An eval function may take long, or never end.
    const scores =
      scorers.length === 0
        ? unscored
        : await untilAborted(stop.signal, () => scoreItem(scorers, item.row, outcome))
    let event: ItemEvent
    let isNew = true
    try {
      const row = store?.manifest.rows[item.rowIndex] ?? toRunRow(item.row)
      const ended = toEndedItem(item, outcome, { row, scores, redact })
      isNew = !state.events.has(itemKey(ended.event))
      event = (await store?.commit(ended)) ?? {
        ...ended.event,
        trajectory_place: null,
        sample_place: null,
      }
      onStored?.(event)
      this.#budget?.add(event)
      this.#failures.add(event)
    } catch (error) {
      stop.cancel(error)
      throw error
    }
    this.#againSince = undefined
    this.#unreported.push({ event, isNew })
  }

  /** Reports stored events; after storing, because a callback may throw. */
  #report(): void {
    const { onItem, onProgress, state, inFlight } = this.#options
    for (const { event: item, isNew } of this.#unreported.splice(0)) {
      state.add(item, isNew)
      onItem?.(item)
      onProgress?.({ done: state.done, total: state.total, item, inFlight: inFlight() })
    }
  }
}

const unscored: ItemScores = { scores: {}, scoreErrors: {} }

function unchanged<T>(data: T): T {
  return data
}

/** An outcome that is unrelated to the agent. */
interface Loss {
  readonly why: string
  /** Whether the item may be the cause when it happens often. */
  readonly isCounted: boolean
}

/**
 * The loss of an item to a rate limit, to a policy that is away, or with its worker. Undefined for an item that
 * was not lost.
 */
function lossOf(
  { status, errorType, errorMessage: message, record }: ItemOutcome,
  isAway: boolean,
): Loss | undefined {
  const trouble = status === 'failed' ? record.trouble : null
  if (trouble?.isRateLimit) return { why: trouble.message, isCounted: false }
  if (trouble !== null && isAway) return { why: trouble.message, isCounted: true }
  if (!rolloutLossSchema.safeParse(errorType).success) return undefined
  return { why: message ?? '', isCounted: true }
}

/** The outcome of an item that the server refused. */
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
    record: emptyRecord,
  }
}

/** The consequence of an error that was thrown when a rollout was sent. */
type ErrorMeaning =
  /** The server refused this rollout but may accept others. */
  | 'item-failed'
  /** The server does not know this rollout: it was restarted, or a load balancer asked another one. */
  | 'lost'
  /** No further rollout can be sent, but those in progress may still end. */
  | 'halt'
  /** Rollouts in progress cannot end either. */
  | 'halt-and-cancel'

/** Classifies an error of `ItemRunner.run`. */
function classifyError(error: unknown): ErrorMeaning {
  if (!isOsmosisError(error)) return 'halt'
  if (error.code === 'invalid_request') return 'item-failed'
  if (error.code !== 'protocol_error') return 'halt'
  if (error.status === undefined) return 'halt-and-cancel'
  if (error.status === 404) return 'lost'
  return error.status >= 400 && error.status < 500 ? 'item-failed' : 'halt'
}
