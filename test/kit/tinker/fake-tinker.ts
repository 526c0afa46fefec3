import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'

import { HttpPeer, type PeerRequest } from '../http-peer.ts'
import { TokenModel, type TokenDatum } from './token-model.ts'

/** What this service reads of a request. */
interface SentBody extends Readonly<Record<string, unknown>> {
  readonly model_id?: string
  readonly seq_id?: number
  readonly path?: string
  readonly request_id?: string
  readonly sampling_session_seq_id?: number
  readonly sampling_session_id?: string
  readonly forward_backward_input?: {
    readonly data: readonly TokenDatum[]
    readonly loss_fn: string
  }
  readonly adam_params?: Record<string, number>
  readonly prompt?: { readonly chunks: readonly { readonly tokens: readonly number[] }[] }
  readonly sampling_params?: { readonly max_tokens: number; readonly seed?: number }
}

/** A request, without `/api/v1/`. */
export interface TinkerRequest {
  readonly route: string
  readonly headers: IncomingHttpHeaders
  readonly body: SentBody
  readonly bytes: Buffer
}

/** What a request gets instead of its answer. `lost`: the service executes the request, and the connection breaks. */
export type TinkerAnswer =
  | 'lost'
  | {
      readonly status?: number
      readonly body?: unknown
      readonly bytes?: Buffer
      readonly headers?: Readonly<Record<string, string>>
    }

interface LoadedModel {
  readonly id: string
  readonly weights: TokenModel
}

/** A refusal. */
class Refused extends Error {
  readonly status: number

  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

/**
 * A service that speaks the Tinker API over HTTP, with models that learn. It follows the API server of SkyRL (`skyrl/tinker`,
 * August 2026): the rules for `seq_id`, for names of saves, for the first request of a model and for the number of models.
 */
export class FakeTinker extends HttpPeer {
  /** All requests, in their order. */
  readonly requests: TinkerRequest[] = []
  /** Maximum number of models. */
  mostModels = 4
  /** What it calls the tokenizer of its model. */
  tokenizer: string | undefined
  readonly #answers = new Map<string, TinkerAnswer[]>()
  readonly #models = new Map<string, LoadedModel>()
  readonly #futures = new Map<string, unknown>()
  readonly #sent = new Map<string, { readonly text: string; readonly future: string }>()
  readonly #saved = new Map<string, TokenModel>()
  readonly #samplers = new Map<string, TokenModel>()
  #made = 0
  readonly #sampled = new Map<string, number>()

  /** Answers the next requests to a route like this, each once. */
  next(route: string, ...answers: readonly TinkerAnswer[]): this {
    this.#answers.set(route, [...(this.#answers.get(route) ?? []), ...answers])
    return this
  }

  /** Ids of the models that are loaded. */
  get models(): readonly string[] {
    return [...this.#models.keys()]
  }

  /** Loses what is not saved, as a restart of the service does. */
  restart(): void {
    this.#models.clear()
    this.#futures.clear()
    this.#samplers.clear()
  }

  /** The bodies of the requests to a route. */
  sentTo(route: string): SentBody[] {
    return this.requests.flatMap((request) => (request.route === route ? [request.body] : []))
  }

  protected receive({ path, headers, body, bytes }: PeerRequest, response: ServerResponse): void {
    const route = path.replace('/api/v1/', '')
    this.requests.push({ route, headers, body, bytes })
    const instead = this.#answers.get(route)?.shift()
    if (instead !== undefined && instead !== 'lost') {
      const { status = 200, body: content = {}, bytes: raw, headers: own } = instead
      response.writeHead(status, { 'content-type': 'application/json', ...own })
      response.end(raw ?? JSON.stringify(content))
    } else {
      const { status, content } = this.#handle(route, body)
      if (instead === 'lost') response.destroy()
      else {
        response.writeHead(status, { 'content-type': 'application/json' })
        response.end(JSON.stringify(content))
      }
    }
    this.wake()
  }

  #handle(route: string, body: SentBody): { readonly status: number; readonly content: unknown } {
    try {
      return { status: 200, content: this.#answer(route, body) }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { status: error.status, content: { detail: error.message } }
    }
  }

  #answer(route: string, body: SentBody): unknown {
    if (route === 'create_session') return { session_id: 'session-1' }
    if (route === 'session_heartbeat') return {}
    if (route === 'get_info') return { model_data: { tokenizer_id: this.tokenizer } }
    if (route === 'retrieve_future') return this.#result(body.request_id ?? '')
    return { request_id: this.#future(route, body) }
  }

  #result(id: string): unknown {
    const result = this.#futures.get(id)
    if (result === undefined) throw new Refused(404, 'Future not found')
    if (result instanceof Refused) throw result
    return result
  }

  /** The id of the future of a request: the same for the same request with the same `seq_id`. */
  #future(route: string, body: SentBody): string {
    const key = body.seq_id === undefined ? '' : `${body.model_id}/${body.seq_id}`
    const before = route === 'asample' || key === '' ? undefined : this.#sent.get(key)
    const text = JSON.stringify(body)
    // Names of saves are checked before the number of the request.
    if (route.startsWith('save_weights')) this.#assertNewName(body)
    if (before !== undefined) {
      if (before.text === text) return before.future
      throw new Refused(409, 'Training request sequence number was reused')
    }
    const future = String(this.#futures.size + 1)
    this.#sent.set(key, { text, future })
    this.#futures.set(future, this.#run(route, body))
    return future
  }

  #run(route: string, body: SentBody): unknown {
    if (route === 'create_model') {
      if (this.#models.size >= this.mostModels) {
        return new Refused(400, `Maximum number of LoRA adapters (${this.mostModels}) reached`)
      }
      const id = `model_${(this.#made += 1)}`
      this.#models.set(id, { id, weights: new TokenModel() })
      return { model_id: id }
    }
    if (route === 'asample') return this.#sample(body)
    const model = this.#models.get(body.model_id ?? '')
    if (model === undefined) throw new Refused(404, 'Model not found')
    const { weights, id } = model
    switch (route) {
      case 'unload_model':
        this.#models.delete(id)
        return {}
      case 'forward_backward': {
        const { data = [], loss_fn: loss = '' } = body.forward_backward_input ?? {}
        const logprobs = data.map((datum) => weights.forwardBackward(datum, loss))
        return { loss_fn_outputs: logprobs.map((values) => ({ logprobs: { data: values } })) }
      }
      case 'optim_step':
        weights.step(body.adam_params ?? {})
        return null
      case 'save_weights': {
        const path = `tinker://${id}/weights/${body.path}`
        this.#saved.set(path, weights.copy())
        return { path }
      }
      case 'save_weights_for_sampler': {
        const name = nameOf(body)
        this.#saved.set(`${id}/${name}`, weights.copy())
        if (body.path !== undefined) return { path: `tinker://${id}/sampler_weights/${name}` }
        this.#samplers.set(`sampling-${id}-${name}`, weights.copy())
        return { sampling_session_id: `sampling-${id}-${name}`, path: null }
      }
      case 'load_weights': {
        const saved = this.#saved.get(body.path ?? '')
        if (body.seq_id !== 1) throw new Refused(400, 'LoadWeights is not permitted')
        if (saved === undefined) throw new Refused(404, `Checkpoint not found: ${body.path}`)
        this.#models.set(id, { id, weights: saved.copy() })
        return { path: body.path }
      }
      default:
        throw new Refused(404, `Not Found: ${route}`)
    }
  }

  #assertNewName(body: SentBody): void {
    const name = nameOf(body)
    const id = body.model_id
    if (this.#saved.has(`${id}/${name}`) || this.#saved.has(`tinker://${id}/weights/${name}`)) {
      throw new Refused(409, `Checkpoint '${name}' already exists for model '${id}'`)
    }
  }

  #sample(body: SentBody): unknown {
    const weights = this.#samplers.get(body.sampling_session_id ?? '')
    if (weights === undefined) throw new Refused(404, 'Sampling session not found')
    const chunks = body.prompt?.chunks ?? []
    const { max_tokens: maxTokens = 16, seed } = body.sampling_params ?? {}
    const prompt = chunks.flatMap(({ tokens }) => tokens)
    // The same for the same prompts, in whichever order they come.
    const text = JSON.stringify([body.sampling_session_id, prompt])
    const times = this.#sampled.get(text) ?? 0
    this.#sampled.set(text, times + 1)
    const drawn = createHash('sha256').update(`${text}/${times}`).digest().readInt32BE()
    return { sequences: [weights.sample(prompt, { maxTokens, seed: seed ?? drawn })] }
  }
}

function nameOf(body: SentBody): string {
  return body.path ?? `ss${body.sampling_session_seq_id}_seq${body.seq_id}`
}
