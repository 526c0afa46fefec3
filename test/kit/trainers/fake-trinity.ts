import type { ChatCompletionRequest } from '@osmosis/core/policy'

import { type FakeModel, recordedTokens, type TrainedCall } from './trained-call.ts'
import {
  startTrainerHttp,
  type TrainerAnswer,
  type TrainerFaults,
  type ReceivedTrainerRequest,
  type TrainerServer,
} from './trainer-http.ts'

/** A call that Trinity would learn from; its `group` is the `task_id` that it was rewarded under. */
export interface TrinityCall extends TrainedCall {
  /** Id of the answer, under which it was recorded and rewarded. */
  readonly id: string
  /** The `run_id`: which attempt of its group it belongs to. */
  readonly run: number
}

/** A call that has been recorded, and has no reward. */
export type UnrewardedCall = Omit<TrinityCall, 'group' | 'run' | 'reward'>

/** Options of {@link FakeTrinity}. */
export interface FakeTrinityOptions {
  readonly model: FakeModel
  /** The only model name that is answered. Default: `policy`. */
  readonly modelName?: string
  /** What goes wrong, and with which request. Default: nothing does. */
  readonly faults?: TrainerFaults
  /** The training: awaited before a commit is answered. */
  readonly onCommit?: (calls: readonly TrinityCall[]) => void | Promise<void>
}

/**
 * What `serve` of Trinity-RFT offers to agents. Like the real one, it refuses streams and other model names,
 * answers every error with a 500, silently ignores ids that are unknown or were rewarded before, replaces an
 * answer by a later one with the same id, and commits everything that has a reward, from any client.
 */
export class FakeTrinity implements AsyncDisposable {
  readonly #options: FakeTrinityOptions
  readonly #recorded = new Map<string, UnrewardedCall>()
  readonly #used = new Set<string>()
  readonly #commits: TrinityCall[][] = []
  #waiting: TrinityCall[] = []
  #http: TrainerServer | undefined
  #paused = Promise.withResolvers<void>()

  private constructor(options: FakeTrinityOptions) {
    this.#options = options
    this.#paused.resolve()
  }

  /** Starts it on a free port of 127.0.0.1. The caller closes it. */
  static async start(options: FakeTrinityOptions): Promise<FakeTrinity> {
    const fake = new FakeTrinity(options)
    fake.#http = await startTrainerHttp(async (request) => fake.#answer(request), options.faults)
    return fake
  }

  /** Without a slash at the end. */
  get url(): string {
    return this.#http?.url ?? ''
  }

  /** What was committed, in that order: what Trinity would learn from. */
  trained(): readonly TrinityCall[] {
    return this.#commits.flat()
  }

  /** The same, one list for each commit that found something. */
  commits(): readonly (readonly TrinityCall[])[] {
    return this.#commits
  }

  /** What has a reward, and waits for the next commit. */
  waiting(): readonly TrinityCall[] {
    return this.#waiting
  }

  /** What was recorded and never rewarded; a commit leaves it where it is. */
  unrewarded(): readonly UnrewardedCall[] {
    return [...this.#recorded.values()]
  }

  /** Holds all model calls until {@link FakeTrinity.resume}, as while new weights are loaded. */
  pause(): void {
    this.#paused = Promise.withResolvers<void>()
  }

  resume(): void {
    this.#paused.resolve()
  }

  /** Closes every connection and stops listening. Safe to call again. */
  async close(): Promise<void> {
    this.resume()
    await this.#http?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #answer(request: ReceivedTrainerRequest): Promise<TrainerAnswer> {
    switch (`${request.method} ${request.path}`) {
      case 'GET /v1/models':
        return { status: 200, body: { object: 'list', data: [{ id: this.#modelName }] } }
      case 'POST /v1/chat/completions':
        return this.#complete(request)
      case 'POST /feedback':
        return this.#feedback(request.body)
      case 'POST /commit':
        return this.#commit()
      default:
        return { status: 404, body: { detail: 'Not Found' } }
    }
  }

  get #modelName(): string {
    return this.#options.modelName ?? 'policy'
  }

  async #complete({ body, headers }: ReceivedTrainerRequest): Promise<TrainerAnswer> {
    await this.#paused.promise
    if (body['stream'] === true) throw new Error('the answer of the model is not JSON')
    if (body['model'] !== this.#modelName) throw new Error(`no model ${String(body['model'])}`)
    const rolloutId = String(headers['x-rollout-id'] ?? '')
    const answer = await this.#options.model(body as ChatCompletionRequest, rolloutId)
    const { id } = answer
    if (!this.#used.has(id)) this.#recorded.set(id, { id, rolloutId, ...recordedTokens(answer) })
    return { status: 200, body: answer }
  }

  #feedback(body: Readonly<Record<string, unknown>>): TrainerAnswer {
    const { task_id: group, run_id: run, msg_ids: ids, reward } = body
    if (typeof reward !== 'number' || !Array.isArray(ids)) {
      return { status: 400, body: { detail: 'reward and msg_ids are required' } }
    }
    for (const id of ids.map(String)) {
      const call = this.#recorded.get(id)
      if (call === undefined) continue
      this.#recorded.delete(id)
      this.#used.add(id)
      this.#waiting.push({ ...call, group: String(group), run: Number(run), reward })
    }
    return { status: 200, body: { status: 'success' } }
  }

  async #commit(): Promise<TrainerAnswer> {
    const calls = this.#waiting
    this.#waiting = []
    if (calls.length > 0) {
      this.#commits.push(calls)
      await this.#options.onCommit?.(calls)
    }
    return { status: 200, body: { status: 'success' } }
  }
}
