import { createTransport, wait, type Transport } from '@osmosis/core/http'
import type { ChatCompletion, ChatCompletionRequest } from '@osmosis/core/policy'
import { boundedText } from '@osmosis/protocol/http'
import type { RunResponseBody } from '@osmosis/protocol/wire'

import { recordedTokens, type FakeModel, type TrainedCall } from './trained-call.ts'
import {
  startTrainerHttp,
  type TrainerAnswer,
  type TrainerFaults,
  type ReceivedTrainerRequest,
  type TrainerServer,
} from './trainer-http.ts'

/** A row of Miles' dataset: the metadata of its samples. */
export type MilesRow = Readonly<Record<string, unknown>>

/** A rollout as Miles has it after its end. */
export interface MilesRollout {
  /** The same for all attempts of a row. */
  readonly group: string
  /** From 1. */
  readonly attempt: number
  readonly sessionId: string
  /** The answer to `POST /run`; null when it was not valid. */
  readonly answer: RunResponseBody | null
  /** What its session recorded, in that order. */
  readonly calls: readonly TrainedCall[]
}

/** Options of {@link FakeMiles}. */
export interface FakeMilesOptions {
  readonly model: FakeModel
  /** What `model` of each request has behind `openai/`. Default: `model`. */
  readonly modelName?: string
  /** Sent with each request. Default: a temperature of 1. */
  readonly samplingParams?: Readonly<Record<string, unknown>>
  /** Sent with each request. Default: it is left out. */
  readonly maxSeqLen?: number
  /** The name under which its session server asks. Default: `instance-1`. */
  readonly instanceId?: string
  /** Key of the rollout server, which the agent function has to send. Default: none. */
  readonly apiKey?: string
  /**
   * Whether groups with a rollout that is not `completed` are dropped, as the documented filter does.
   * Default: false, everything that was recorded is trained.
   */
  readonly filter?: boolean
  /** How often a request for a rollout is repeated when it was not answered with a 2xx. Default: 60. */
  readonly retries?: number
  /** The pause before each repetition. Milliseconds; default 1000. */
  readonly retryMs?: number
  /** The faults of model calls. Default: none. */
  readonly faults?: TrainerFaults
}

interface Session {
  readonly calls: ReturnType<typeof recordedTokens>[]
}

const longestAnswer = 256 * 1024 * 1024

/**
 * Miles' side of `POST /run`. As in Miles, a session for each rollout records what the policy answers, streams
 * are answered with one chunk, a request without an answer is repeated in the same session, and every rollout
 * that called the policy is trained, with reward 0 where it has none.
 */
export class FakeMiles implements AsyncDisposable {
  readonly #options: FakeMilesOptions
  readonly #sessions = new Map<string, Session>()
  readonly #rollouts: MilesRollout[] = []
  readonly #transport: Transport
  #http: TrainerServer | undefined
  #groups = 0

  private constructor(options: FakeMilesOptions) {
    this.#options = options
    this.#transport = createTransport({
      name: 'rollout server',
      codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
    })
  }

  /** Starts its session server on a free port of 127.0.0.1. The caller closes it. */
  static async start(options: FakeMilesOptions): Promise<FakeMiles> {
    const fake = new FakeMiles(options)
    fake.#http = await startTrainerHttp(async (request) => fake.#answer(request), options.faults)
    return fake
  }

  /** URL of its session server, without a slash at the end. */
  get url(): string {
    return this.#http?.url ?? ''
  }

  /** All rollouts that are over, in the order of their ends. */
  get rollouts(): readonly MilesRollout[] {
    return this.#rollouts
  }

  /**
   * One step: sends each row to a rollout server `attempts` times, all at once. Never rejects.
   *
   * @param server - URL of the rollout server
   * @param options - `signal` hangs up on everything that is in progress
   */
  async generate(
    server: string,
    rows: readonly MilesRow[],
    { attempts = 1, signal }: { attempts?: number; signal?: AbortSignal } = {},
  ): Promise<readonly MilesRollout[]> {
    const rollouts = rows.flatMap((row) => {
      const group = `g${(this.#groups += 1)}`
      return Array.from({ length: attempts }, async (_, n) =>
        this.#rollout(server, row, { group, attempt: n + 1, signal }),
      )
    })
    return Promise.all(rollouts)
  }

  /** Cancels the rollouts that this instance has requested; resolves with their number. */
  async flush(server: string, instanceId = this.#instanceId): Promise<number> {
    const answer = await this.#post(`${server}/flush`, { session_server_instance_id: instanceId })
    return (answer as { flushed: number }).flushed
  }

  /** What Miles would learn from, in the order in which rollouts ended. */
  trained(): readonly TrainedCall[] {
    return this.#rollouts
      .filter(({ group }) => this.#options.filter !== true || this.#isComplete(group))
      .flatMap(({ calls }) => calls)
  }

  /** Hangs up on everything and stops listening. Safe to call again. */
  async close(): Promise<void> {
    await this.#transport.close()
    await this.#http?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #instanceId(): string {
    return this.#options.instanceId ?? 'instance-1'
  }

  #isComplete(group: string): boolean {
    return this.#rollouts
      .filter((rollout) => rollout.group === group)
      .every(({ answer }) => answer?.exit_status === 'completed')
  }

  async #rollout(
    server: string,
    row: MilesRow,
    { group, attempt, signal }: { group: string; attempt: number; signal: AbortSignal | undefined },
  ): Promise<MilesRollout> {
    const sessionId = `${group}-${attempt}`
    const session: Session = { calls: [] }
    this.#sessions.set(sessionId, session)
    const { modelName = 'model', samplingParams = { temperature: 1 }, maxSeqLen } = this.#options
    const body = {
      ...row,
      session_server_instance_id: this.#instanceId,
      session_server_id: new URL(this.url).host,
      base_url: `${this.url}/sessions/${sessionId}/v1`,
      model: `openai/${modelName}`,
      sampling_params: samplingParams,
      agent_kwargs: {},
      ...(maxSeqLen === undefined ? {} : { max_seq_len: maxSeqLen }),
    }
    const answer = (await this.#post(`${server}/run`, body, signal).catch(
      () => null,
    )) as RunResponseBody | null
    this.#sessions.delete(sessionId)
    // Miles trains a rollout without a reward with 0; only `exit_status` marks it as failed.
    const reward = answer?.reward ?? 0
    const calls = session.calls.map((call) => ({ rolloutId: sessionId, group, reward, ...call }))
    const rollout = { group, attempt, sessionId, answer, calls }
    this.#rollouts.push(rollout)
    return rollout
  }

  async #post(url: string, body: object, signal = new AbortController().signal): Promise<unknown> {
    const { apiKey, retries = 60, retryMs = 1000 } = this.#options
    const headers = {
      'content-type': 'application/json',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    }
    for (let tried = 0; ; tried += 1) {
      try {
        const request = { headers, body: JSON.stringify(body), signal }
        const answer = await this.#transport.post(url, request)
        return JSON.parse((await boundedText(answer.body, longestAnswer)) ?? '') as unknown
      } catch (error) {
        if (tried === retries || signal.aborted) throw error
        await wait(retryMs, signal)
      }
    }
  }

  async #answer({ method, path, body }: ReceivedTrainerRequest): Promise<TrainerAnswer> {
    const [, sessionId = ''] = /^\/sessions\/([^/]+)\/v1\/chat\/completions$/.exec(path) ?? []
    const session = this.#sessions.get(sessionId)
    if (method !== 'POST' || session === undefined) {
      return { status: 404, body: { detail: 'session not found' } }
    }
    const answer = await this.#options.model(body as ChatCompletionRequest, sessionId)
    session.calls.push(recordedTokens(answer))
    if (body['stream'] !== true) return { status: 200, body: answer }
    const text = `data: ${JSON.stringify(inOneChunk(answer))}\n\ndata: [DONE]\n\n`
    return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: text }
  }
}

function inOneChunk({ choices, ...answer }: ChatCompletion): object {
  return {
    ...answer,
    object: 'chat.completion.chunk',
    choices: choices.map(({ message: { tool_calls: calls, ...said }, ...choice }) => ({
      ...choice,
      delta: {
        ...said,
        ...(calls && { tool_calls: calls.map((call, index) => ({ index, ...call })) }),
      },
    })),
  }
}
