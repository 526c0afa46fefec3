import { randomBytes } from 'node:crypto'

import {
  errorMessage,
  isOsmosisError,
  oneReward,
  type RewardRule,
  type RolloutEnd,
} from '@osmosis/core'
import { wait } from '@osmosis/core/http'
import { silentLogger, type Logger } from '@osmosis/server'
import { rowOf, type TrainerRow } from '@osmosis/server/internal'

import {
  finalStatus,
  gatewayRollout,
  gatewayRollouts,
  pathOf,
  patch,
  type GatewayRollout,
} from './gateway-rollout.ts'
import { GatewayWatch, type HeldRollout } from './gateway-watch.ts'
import { statusOf, TrainerClient } from './trainer-client.ts'
import type { TrainerLink, TrainerTask } from './trainer-link.ts'
import { WakeUp } from './wake-up.ts'

/** Options of {@link agentLightning}. */
export interface AgentLightningOptions {
  /** Base URL of the gateway. */
  readonly url: string
  /** Its key, which model calls carry as well; default: none. */
  readonly apiKey?: string | undefined
  /** How often a rollout is run again after an error of the gateway or the network; default 1. */
  readonly retries?: number | undefined
  /** The one reward of a rollout with several samples; default: there must be exactly one. */
  readonly reward?: RewardRule | undefined
  /** What a rollout gets of the trainer's row; default: the usual names of columns are known. */
  readonly rows?: ((input: Readonly<Record<string, unknown>>) => TrainerRow) | undefined
  /** Between two looks for rollouts that wait. Seconds; default 1. */
  readonly lookSeconds?: number | undefined
  /** Between two looks for rollouts that were withdrawn or abandoned. Seconds; default 10. */
  readonly watchSeconds?: number | undefined
  /** How long after its deadline a running rollout counts as abandoned. Seconds; default 60. */
  readonly abandonedAfterSeconds?: number | undefined
  /** Default: nothing is logged. */
  readonly logger?: Logger | undefined
}

/** Rollouts that are known to wait are asked for again after this. Milliseconds. */
const stockMs = 2_000
/** How long one rollout is asked for, while others go on. Milliseconds. */
const claimMs = 60_000
/** For a last look at a gateway that does not answer, when the worker ends. Milliseconds. */
const lastLookMs = 10_000
/** More than one worker takes, so that several do not all want the same. */
const mostListed = 500

/**
 * Rollouts of the gateway of Agent Lightning v1. Only rewarded rollouts are trained: the end of any other
 * names an attempt without recorded calls, because the trainer would fill its missing reward with 0.
 *
 * @throws OsmosisError with code `invalid_config` for a URL or a key that cannot be used
 */
export function agentLightning(options: AgentLightningOptions): TrainerLink {
  return new AgentLightningLink(options)
}

class AgentLightningLink implements TrainerLink {
  readonly #options: AgentLightningOptions
  readonly #logger: Logger
  readonly #client: TrainerClient
  /** Ends the names of all attempts of this worker, so that it knows its own. */
  readonly #worker = randomBytes(4).toString('hex')
  readonly #held = new Map<string, HeldRollout>()
  readonly #watch: GatewayWatch
  #stock: GatewayRollout[] = []
  #lookedAt = Number.NEGATIVE_INFINITY
  readonly #claiming = new Set<Promise<void>>()
  readonly #ready: TrainerTask[] = []
  #failure: { readonly error: unknown } | undefined
  readonly #claimed = new WakeUp()
  #warned = false

  constructor(options: AgentLightningOptions) {
    this.#options = options
    this.#logger = options.logger ?? silentLogger
    const { url, apiKey, watchSeconds = 10, abandonedAfterSeconds = 60 } = options
    this.#client = new TrainerClient({ name: 'gateway of Agent Lightning', url, apiKey })
    this.#watch = new GatewayWatch({
      client: this.#client,
      held: this.#held,
      worker: this.#worker,
      watchSeconds,
      abandonedAfterSeconds,
      logger: this.#logger,
    })
  }

  get name(): string {
    return `Agent Lightning at ${this.#client.url}`
  }

  async claim(free: number, signal: AbortSignal): Promise<readonly TrainerTask[]> {
    this.#watch.start()
    if (this.#ready.length === 0) {
      try {
        await this.#beginClaims(free - this.#claiming.size, signal)
        await this.#claimedOrLate(signal)
      } catch (error) {
        if (!signal.aborted) throw error
      }
    }
    if (signal.aborted) await Promise.all(this.#claiming)
    if (this.#failure) throw this.#failure.error
    return this.#ready.splice(0)
  }

  /** Begins as many as wanted, of those that are known to wait; asks for them when none are. */
  async #beginClaims(wanted: number, signal: AbortSignal): Promise<void> {
    if (wanted <= 0) return
    const { lookSeconds = 1 } = this.#options
    const ageMs = performance.now() - this.#lookedAt
    const isDue = this.#stock.length === 0 ? ageMs >= lookSeconds * 1000 : ageMs > stockMs
    if (isDue) await this.#look(signal)
    for (let n = 0; n < wanted && this.#stock.length > 0; n += 1) {
      const [rollout] = this.#stock.splice(Math.floor(Math.random() * this.#stock.length), 1)
      if (rollout === undefined) return
      const claiming = this.#take(rollout, signal)
        .catch((error: unknown) => {
          this.#failure = { error }
        })
        .finally(() => {
          this.#claiming.delete(claiming)
          this.#claimed.now()
        })
      this.#claiming.add(claiming)
    }
  }

  /** Waits for a claim, but not for one that takes long: more may be wanted by then. */
  async #claimedOrLate(signal: AbortSignal): Promise<void> {
    if (this.#ready.length > 0) return
    const { lookSeconds = 1 } = this.#options
    const late = new AbortController()
    const isOver = AbortSignal.any([signal, late.signal])
    const waiting = wait(lookSeconds * 1000, isOver).catch(() => {})
    await (this.#claiming.size > 0 ? Promise.race([this.#claimed.next, waiting]) : waiting)
    late.abort()
  }

  async #look(signal: AbortSignal): Promise<void> {
    const path = `/api/rollouts?state_in=queuing&limit=${mostListed}`
    const onRetry = (error: unknown): void =>
      this.#logger.warn({ error: errorMessage(error) }, `${this.name} does not answer`)
    const listed = gatewayRollouts(await this.#client.ask({ method: 'GET', path }, signal, onRetry))
    this.#lookedAt = performance.now()
    this.#stock = listed.filter(({ id, state }) => state === 'queuing' && !this.#held.has(id))
  }

  /** Takes a rollout, unless somebody else has. */
  async #take(rollout: GatewayRollout, signal: AbortSignal): Promise<void> {
    const held: HeldRollout = {
      rollout,
      attempt: this.#attempt(0),
      tries: 0,
      claimedAt: performance.now(),
      withdrawn: Promise.withResolvers(),
    }
    // Before it is asked for: whoever watches must not take it for one that nobody runs.
    this.#held.set(rollout.id, held)
    try {
      if (!(await this.#claim(held, signal))) {
        this.#held.delete(rollout.id)
        return
      }
    } catch (error) {
      this.#held.delete(rollout.id)
      if (isOsmosisError(error) && error.code === 'unauthorized') throw error
      const line = { rollout_id: rollout.id, error: errorMessage(error) }
      this.#logger.error(line, 'a rollout could not be taken')
      return
    }
    try {
      this.#ready.push(this.#toTask(held))
    } catch (error) {
      await this.#refuse(held, errorMessage(error))
    }
  }

  /** Its row cannot be run, here or anywhere. */
  async #refuse({ rollout: { id }, attempt }: HeldRollout, message: string): Promise<void> {
    this.#logger.error({ rollout_id: id, error: message }, 'a row cannot be run')
    const end = { kind: 'failed', category: 'validation_error', message } as const
    try {
      await this.#client.tell(patch(id, finalStatus(end, attempt)))
    } finally {
      this.#held.delete(id)
    }
  }

  async #claim({ rollout: { id }, attempt }: HeldRollout, signal: AbortSignal): Promise<boolean> {
    const request = patch(id, { state: 'running', last_attempt_id: attempt })
    let tries = 0
    try {
      const onRetry = (): void => {
        tries += 1
      }
      const patience = AbortSignal.any([signal, AbortSignal.timeout(claimMs)])
      await this.#client.ask(request, patience, onRetry)
      return true
    } catch (error) {
      const status = statusOf(error)
      if (tries === 0 && (status === 404 || status === 409)) return false
      if (isOsmosisError(error) && error.code === 'unauthorized') throw error
      return this.#isOurs(id, attempt, signal)
    }
  }

  /** A try to claim it whose answer was lost may have arrived. */
  async #isOurs(id: string, attempt: string, ending: AbortSignal): Promise<boolean> {
    const patience = AbortSignal.timeout(ending.aborted ? lastLookMs : 2 ** 31 - 1)
    try {
      const told = await this.#client.tell({ method: 'GET', path: pathOf(id) }, patience)
      const now = told === undefined ? undefined : gatewayRollout(told)
      return now?.state === 'running' && now.attempt === attempt
    } catch (error) {
      // Whatever worker is left gives it up when its time is over.
      if (patience.aborted) return false
      throw error
    }
  }

  #toTask({ rollout, attempt, claimedAt }: HeldRollout): TrainerTask {
    const { id, isTrain, timeoutSeconds, input } = rollout
    const { apiKey, rows = rowOf } = this.#options
    const { messages, label, metadata } = rows(input as Readonly<Record<string, unknown>>)
    const mode = isTrain ? 'train' : 'val'
    const route = `/proxy/rollout/${encodeURIComponent(id)}/attempt/${attempt}/mode/${mode}/openai/v1`
    return {
      key: id,
      request: {
        rolloutId: id,
        initialMessages: messages,
        label,
        metadata,
        chatCompletionsUrl: `${this.#client.url}${route}`,
        apiKey,
        wire: { stream: false, ownRoute: true },
        agentTimeoutSeconds: timeoutSeconds,
        queuedSeconds: (performance.now() - claimedAt) / 1000,
        graderTimeoutSeconds: timeoutSeconds,
        grade: true,
      },
    }
  }

  async retry(task: TrainerTask, end: RolloutEnd): Promise<TrainerTask | null> {
    const held = this.#held.get(task.key)
    const { retries = 1 } = this.#options
    if (end.kind !== 'failed' || end.category !== 'http_error') return null
    if (held === undefined || held.tries >= retries || isLate(held)) return null
    held.tries += 1
    held.attempt = this.#attempt(held.tries)
    const request = patch(task.key, { last_attempt_id: held.attempt })
    const told = await this.#client.tell(request)
    // The gateway takes this of rollouts that have ended, too: an attempt without calls trains nothing.
    if (told === undefined || gatewayRollout(told).state !== 'running') return null
    this.#logger.info({ rollout_id: task.key, error: end.message }, 'rollout is run again')
    return this.#toTask(held)
  }

  asTold(end: RolloutEnd): RolloutEnd {
    if (end.kind !== 'rewarded') return end
    try {
      oneReward(end, this.#options.reward)
      return end
    } catch (error) {
      return { kind: 'failed', category: 'validation_error', message: errorMessage(error) }
    }
  }

  async complete({ key }: TrainerTask, end: RolloutEnd): Promise<void> {
    const held = this.#held.get(key)
    if (held === undefined) return
    try {
      if (end.kind === 'rewarded') {
        this.#warnOfRepetition(key, end)
        const path = `${pathOf(key)}/attempt/${held.attempt}/events`
        const body = {
          event_type: 'reward',
          data: { value: oneReward(end, this.#options.reward) },
        }
        if ((await this.#client.tell({ method: 'POST', path, body })) === undefined) return
      }
      await this.#client.tell(patch(key, finalStatus(end, held.attempt)))
    } finally {
      this.#held.delete(key)
    }
  }

  async watch({ key }: TrainerTask, signal: AbortSignal): Promise<void> {
    const over = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => over.resolve(), { once: true })
    await Promise.race([this.#held.get(key)?.withdrawn.promise, over.promise])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watch.close()
    await this.#client.close()
  }

  #attempt(number: number): string {
    return `${number}-${this.#worker}`
  }

  /** The trainer drops all but the last of several calls with the same prompt. */
  #warnOfRepetition(id: string, { samples }: Extract<RolloutEnd, { kind: 'rewarded' }>): void {
    if (this.#warned) return
    const prompts = [...samples.values()]
      .flatMap(({ calls }) => calls)
      .flatMap(({ promptTokenIds }) => (promptTokenIds ? [promptTokenIds.join()] : []))
    if (new Set(prompts).size === prompts.length) return
    this.#warned = true
    this.#logger.warn(
      { rollout_id: id },
      'a rollout has several model calls with the same prompt: Agent Lightning trains only the last of them (said once)',
    )
  }
}

function isLate({ claimedAt, rollout }: HeldRollout): boolean {
  return performance.now() - claimedAt >= rollout.timeoutSeconds * 1000
}
