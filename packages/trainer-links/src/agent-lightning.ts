import { randomBytes } from 'node:crypto'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { isJsonObject, wait } from '@osmosis/core/http'
import { silentLogger, type Logger } from '@osmosis/server'
import { oneReward, type RewardRule, type ExecutionOutcome } from '@osmosis/server/execution'
import { RowGroups, rowOf, type RowGroupOptions, type TrainerRow } from '@osmosis/server/protocols'

import { GatewayClaims } from './claimed-tasks.ts'
import { finalStatus, gatewayRollout, pathOf, patch } from './gateway-rollout.ts'
import { GatewayWatch, type HeldRollout } from './gateway-watch.ts'
import { TrainerClient } from './trainer-client.ts'
import type { TrainerLink, TrainerTask } from './trainer-link.ts'

/** Options of {@link agentLightning}. */
export interface AgentLightningOptions extends RowGroupOptions {
  /** Base URL of the gateway. */
  readonly url: string
  /** Its key, which model calls carry as well; default: none. */
  readonly apiKey?: string | undefined
  /** How often a rollout is executed again after an error of the gateway or the network; default 1. */
  readonly retries?: number | undefined
  /** The one reward of a rollout with several samples; default: there must be exactly one. */
  readonly reward?: RewardRule | undefined
  /**
   * Converts a row of the trainer; default: the usual names of columns are recognised. The label defaults
   * to null, the metadata to an empty object, so that a rollout with neither is graded as well.
   */
  readonly rows?:
    | ((
        input: Readonly<Record<string, unknown>>,
      ) => Pick<TrainerRow, 'messages'> & Partial<TrainerRow>)
    | undefined
  /** How often the gateway is polled for queued rollouts. Seconds; default 1. */
  readonly lookSeconds?: number | undefined
  /** How often it is polled for withdrawn or abandoned rollouts. Seconds; default 10. */
  readonly watchSeconds?: number | undefined
  /** How long after its deadline a running rollout counts as abandoned. Seconds; default 60. */
  readonly abandonedAfterSeconds?: number | undefined
  /** Default: nothing is logged. */
  readonly logger?: Logger | undefined
}

/**
 * Rollouts of the gateway of Agent Lightning v1. Only rewarded rollouts are trained: every other outcome
 * names an attempt without recorded calls, because the trainer would replace a missing reward with 0.
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
  /** The suffix of this worker's attempts, by which it recognises them. */
  readonly #worker = randomBytes(4).toString('hex')
  readonly #held = new Map<string, HeldRollout>()
  readonly #watch: GatewayWatch
  readonly #claims: GatewayClaims
  readonly #groups: RowGroups
  #warned = false

  constructor(options: AgentLightningOptions) {
    this.#options = options
    this.#logger = options.logger ?? silentLogger
    const { url, apiKey, lookSeconds = 1, watchSeconds = 10, abandonedAfterSeconds = 60 } = options
    this.#client = new TrainerClient({ name: 'gateway of Agent Lightning', url, apiKey })
    this.#watch = new GatewayWatch({
      client: this.#client,
      held: this.#held,
      worker: this.#worker,
      watchSeconds,
      abandonedAfterSeconds,
      logger: this.#logger,
    })
    this.#groups = new RowGroups(options)
    this.#claims = new GatewayClaims({
      client: this.#client,
      held: this.#held,
      attempt: this.#attempt(0),
      toTask: (held) => this.#toTask(held),
      groupOf: ({ input, isTrain }) =>
        isTrain && isJsonObject(input) ? this.#groups.nameOf(input) : undefined,
      lookSeconds,
      logger: this.#logger,
    })
  }

  get name(): string {
    return `Agent Lightning at ${this.#client.url}`
  }

  async claim(free: number, signal: AbortSignal): Promise<readonly TrainerTask[]> {
    this.#watch.start()
    return this.#claims.claim(free, signal)
  }

  #toTask(held: HeldRollout): TrainerTask {
    const { rollout, attempt, claimedAt, tries } = held
    const { id, isTrain, timeoutSeconds } = rollout
    const { apiKey, rows = rowOf, retries = 1 } = this.#options
    const input = rollout.input as Readonly<Record<string, unknown>>
    const { messages, label, metadata } = checkedRow(rows(input))
    // An attempt that is executed again remains the same attempt.
    if (isTrain && tries === 0) held.group = this.#groups.next(input)
    const mode = isTrain ? 'train' : 'val'
    const urlOf = (name: string): string =>
      `${this.#client.url}/proxy/rollout/${encodeURIComponent(id)}/attempt/${name}/mode/${mode}/openai/v1`
    return {
      key: id,
      request: {
        rolloutId: id,
        initialMessages: messages,
        label,
        metadata,
        chatCompletionsUrl: urlOf(attempt),
        apiKey,
        endpointNames: { url: 'url', key: 'apiKey, or OSMOSIS_TRAINER_KEY' },
        // The trainer trains every call of the last attempt: others are recorded under another name.
        wire: { stream: false, ownRoute: true, auxiliaryUrl: urlOf(`${attempt}-auxiliary`) },
        group: held.group,
        retriedAfter: tries < retries ? ['http_error'] : [],
        agentTimeoutSeconds: timeoutSeconds,
        queuedSeconds: (performance.now() - claimedAt) / 1000,
        graderTimeoutSeconds: timeoutSeconds,
        grade: true,
      },
    }
  }

  async retry(task: TrainerTask, end: ExecutionOutcome): Promise<TrainerTask | null> {
    const held = this.#held.get(task.key)
    const { retries = 1 } = this.#options
    if (end.kind !== 'failed' || end.category !== 'http_error') return null
    if (held === undefined || held.tries >= retries) return null
    if (performance.now() - held.claimedAt >= held.rollout.timeoutSeconds * 1000) return null
    held.tries += 1
    held.attempt = this.#attempt(held.tries)
    const request = patch(task.key, { last_attempt_id: held.attempt })
    const updated = await this.#client.report(request)
    // The gateway also accepts this for an ended rollout; an attempt without calls trains nothing.
    if (updated === undefined || gatewayRollout(updated).state !== 'running') return null
    this.#logger.info({ rollout_id: task.key, error: end.message }, 'rollout is executed again')
    return this.#toTask(held)
  }

  acceptedEnd(end: ExecutionOutcome): ExecutionOutcome {
    if (end.kind !== 'rewarded') return end
    try {
      oneReward(end, this.#options.reward)
      return end
    } catch (error) {
      return { kind: 'failed', category: 'validation_error', message: errorMessage(error) }
    }
  }

  async complete({ key }: TrainerTask, end: ExecutionOutcome): Promise<void> {
    const held = this.#held.get(key)
    if (held === undefined) return
    try {
      if (end.kind === 'rewarded') {
        this.#warnOfRepeatedPrompts(key, end)
        const path = `${pathOf(key)}/attempt/${held.attempt}/events`
        const body = {
          event_type: 'reward',
          data: { value: oneReward(end, this.#options.reward) },
        }
        if ((await this.#client.report({ method: 'POST', path, body })) === undefined) return
      }
      await this.#client.report(patch(key, finalStatus(end, held.attempt)))
    } finally {
      this.#held.delete(key)
    }
  }

  async watch({ key }: TrainerTask, signal: AbortSignal): Promise<OsmosisError | undefined> {
    const held = this.#held.get(key)
    if (held === undefined) return undefined
    const { timeoutSeconds } = held.rollout
    const { abandonedAfterSeconds = 60 } = this.#options
    // Agent and grader have a limit each. Both together must end before another worker considers the
    // rollout abandoned.
    const spentMs = performance.now() - held.claimedAt
    const leftMs = (timeoutSeconds + abandonedAfterSeconds / 2) * 1000 - spentMs
    const late = wait(leftMs, signal).then(
      () =>
        new OsmosisError(
          'timeout',
          `agent and grader together exceeded the ${timeoutSeconds}s that the trainer gives a rollout`,
        ),
      () => undefined,
    )
    return Promise.race([held.withdrawn.promise.then(() => undefined), late])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watch.close()
    await this.#client.close()
  }

  #attempt(number: number): string {
    return `${number}-${this.#worker}`
  }

  /** The trainer drops all but the last of several calls with the same prompt. */
  #warnOfRepeatedPrompts(
    id: string,
    { samples }: Extract<ExecutionOutcome, { kind: 'rewarded' }>,
  ): void {
    if (this.#warned) return
    const prompts = [...samples.values()]
      .flatMap(({ calls }) => calls.filter(({ trainable }) => trainable))
      .flatMap(({ promptTokenIds }) => (promptTokenIds ? [promptTokenIds.join()] : []))
    if (new Set(prompts).size === prompts.length) return
    this.#warned = true
    this.#logger.warn(
      { rollout_id: id },
      'a rollout has several model calls with the same prompt: Agent Lightning trains only the last of them (logged once)',
    )
  }
}

/** @throws OsmosisError with code `invalid_dataset` when `rows` returned something else than a row */
function checkedRow(made: unknown): TrainerRow {
  if (!isJsonObject(made))
    throw wrongRow(`must return { messages, label, metadata }, got ${kindOf(made)}`)
  if (made instanceof Promise) throw wrongRow('returned a promise: it must not be async')
  const { messages, label = null, metadata = {} } = made
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isMessage)) {
    throw wrongRow(
      `must return messages that are a list of { role, content }, got ${kindOf(messages)}`,
    )
  }
  if (label !== null && typeof label !== 'string') {
    throw wrongRow(`must return a label that is text or null, got ${kindOf(label)}`)
  }
  if (metadata !== null && !isJsonObject(metadata)) {
    throw wrongRow(`must return metadata that are an object or null, got ${kindOf(metadata)}`)
  }
  return { messages: messages as TrainerRow['messages'], label, metadata }
}

function wrongRow(why: string): OsmosisError {
  return new OsmosisError('invalid_dataset', `The function of rows ${why}.`)
}

function isMessage(value: unknown): boolean {
  return isJsonObject(value) && typeof value['role'] === 'string'
}

function kindOf(value: unknown): string {
  if (typeof value === 'string') return 'text'
  if (!Array.isArray(value)) return value === null ? 'null' : typeof value
  return value.length === 0 ? 'an empty list' : 'a list'
}
