import {
  modelRequest,
  type ModelRequest,
  newRollout,
  type QueuedRollout,
  rolloutBody,
  type RolloutOnGateway,
  statusChange,
  type StoredGatewayRollout,
  trainedCalls,
} from './gateway-store.ts'
import type { FakeModel, TrainedCall } from './trained-call.ts'
import {
  startTrainerHttp,
  type TrainerAnswer,
  type TrainerFaults,
  type ReceivedTrainerRequest,
  type TrainerServer,
} from './trainer-http.ts'

/** Options of {@link FakeAgentLightning}. */
export interface FakeAgentLightningOptions {
  readonly model: FakeModel
  /** What requests must carry; default: no key is wanted. */
  readonly apiKey?: string
  /** What goes wrong, and with which request. Default: nothing does. */
  readonly faults?: TrainerFaults
}

/**
 * The gateway of Agent Lightning v1, and what its trainer would train. Like the real one, it refuses streams,
 * answers 429 while it is paused, ends no rollout on its own, and records calls whose caller has disconnected.
 * It trains the calls of the last attempt of each rollout that has ended, with 0 for a missing reward; of
 * several calls with the same prompt it trains only the last.
 */
export class FakeAgentLightning implements AsyncDisposable {
  readonly #options: FakeAgentLightningOptions
  readonly #rollouts = new Map<string, StoredGatewayRollout>()
  #http: TrainerServer | undefined
  #pause: { readonly retryAfterSeconds: number } | undefined
  #changed = Promise.withResolvers<void>()
  #count = 0

  private constructor(options: FakeAgentLightningOptions) {
    this.#options = options
  }

  /** Starts it on a free port of 127.0.0.1. The caller closes it. */
  static async start(options: FakeAgentLightningOptions): Promise<FakeAgentLightning> {
    const fake = new FakeAgentLightning(options)
    fake.#http = await startTrainerHttp(async (request) => {
      const answer = await fake.#answer(request)
      fake.#wake()
      return answer
    }, options.faults)
    return fake
  }

  /** Without a slash at the end. */
  get url(): string {
    return this.#http?.url ?? ''
  }

  /** Every rollout that was not removed, in the order they were queued. */
  get rollouts(): readonly RolloutOnGateway[] {
    return [...this.#rollouts.values()]
  }

  /** Queues rollouts for workers, and returns their ids. */
  enqueue(rows: readonly QueuedRollout[]): string[] {
    return rows.map((row) => {
      const rollout = newRollout(row, this.#count++)
      this.#rollouts.set(rollout.id, rollout)
      return rollout.id
    })
  }

  /** @throws TypeError when there is no such rollout, or no longer */
  rollout(id: string): RolloutOnGateway {
    const rollout = this.#rollouts.get(id)
    if (rollout === undefined) throw new TypeError(`unknown rollout ${id}`)
    return rollout
  }

  /** What would be trained of all rollouts that have ended, validation left out. */
  trained(): readonly TrainedCall[] {
    return this.rollouts.flatMap((rollout) => trainedCalls(rollout))
  }

  /**
   * Answers all model calls with 429, as while weights are updated. Milliseconds. Resolves when that is over.
   *
   * @param retryAfterSeconds - what callers are asked to wait; default 5
   */
  async pause(ms: number, retryAfterSeconds = 5): Promise<void> {
    this.#pause = { retryAfterSeconds }
    await new Promise((resolve) => setTimeout(resolve, ms))
    this.#pause = undefined
  }

  /** Deletes a rollout, as its trainer does with what it no longer wants. */
  remove(id: string): void {
    this.#rollouts.delete(id)
    this.#wake()
  }

  /** Resolves when `test` holds, which is checked after every request. */
  async until(test: () => boolean): Promise<void> {
    while (!test()) await this.#changed.promise
  }

  /** Resolves when every rollout that was not removed has ended. */
  async allEnded(): Promise<void> {
    await this.until(() => this.rollouts.every(({ endedAfter }) => endedAfter !== undefined))
  }

  /** Closes every connection and stops listening. Safe to call again. */
  async close(): Promise<void> {
    await this.#http?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  async #answer(request: ReceivedTrainerRequest): Promise<TrainerAnswer> {
    const { apiKey } = this.#options
    if (apiKey && request.headers.authorization !== `Bearer ${apiKey}`) {
      return refusal(401, 'Invalid or missing API key')
    }
    const { method, path, query } = request
    if (method === 'GET' && path === '/api/rollouts') return this.#list(query)
    const call = modelRequest(path)
    const [, id = ''] = /^\/api\/rollouts\/([^/]+)/.exec(path) ?? []
    const rollout = this.#rollouts.get(call?.rolloutId ?? decodeURIComponent(id))
    if (rollout === undefined) return refusal(404, 'Rollout not found')
    if (call !== undefined) return this.#modelCall(rollout, call, request)
    const [, attempt] = /\/attempt\/([^/]+)\/events$/.exec(path) ?? []
    if (method === 'POST' && attempt !== undefined) return postEvent(rollout, attempt, request)
    if (method === 'PATCH') return patchStatus(rollout, request)
    if (method === 'GET') return { status: 200, body: { rollout: rolloutBody(rollout) } }
    return refusal(405, 'Method Not Allowed')
  }

  #list(query: URLSearchParams): TrainerAnswer {
    const states = query.getAll('state_in')
    if (states.length === 0) return refusal(422, 'Field required: state_in')
    const limit = Number(query.get('limit') ?? 500)
    const matches = this.rollouts.filter(({ state }) => states.includes(state)).slice(0, limit)
    return { status: 200, body: matches.map(rolloutBody) }
  }

  async #modelCall(
    rollout: StoredGatewayRollout,
    { attempt, mode }: ModelRequest,
    { body }: ReceivedTrainerRequest,
  ): Promise<TrainerAnswer> {
    if (this.#pause) {
      const headers = { 'retry-after': String(this.#pause.retryAfterSeconds) }
      return { status: 429, headers, body: { error: 'gateway paused' } }
    }
    if (body['stream'] === true) return refusal(400, 'Streaming responses are not supported')
    const settings = mode === 'train' ? { temperature: 1, logprobs: true } : { temperature: 0 }
    const { messages = [] } = body as { messages?: [] }
    const asked = { ...body, messages, model: 'policy', return_token_ids: true, ...settings }
    const answer = await this.#options.model(asked, rollout.id)
    rollout.events.push({ kind: 'call', attempt, mode, answer })
    return { status: 200, body: answer }
  }
}

function postEvent(
  rollout: StoredGatewayRollout,
  attempt: string,
  { body }: ReceivedTrainerRequest,
): TrainerAnswer {
  const { event_type: type, data } = body as { event_type?: unknown; data?: { value?: unknown } }
  if (typeof type !== 'string') return refusal(422, 'Field required: event_type')
  // The gateway does not check the value; the trainer treats everything but a number as no reward.
  if (type === 'reward') rollout.events.push({ kind: 'reward', attempt, value: data?.value })
  return { status: 200, body: { event_type: type, attempt_id: attempt } }
}

function patchStatus(
  rollout: StoredGatewayRollout,
  { body }: ReceivedTrainerRequest,
): TrainerAnswer {
  const refused = statusChange(rollout, body['status'])
  return refused
    ? refusal(refused.status, refused.why)
    : { status: 200, body: rolloutBody(rollout) }
}

function refusal(status: number, detail: string): TrainerAnswer {
  return { status, body: { detail } }
}
