import { randomBytes } from 'node:crypto'

import type { PolicyModel } from '@osmosis/controller'
import { errorMessage } from '@osmosis/core'
import type { FunctionTool, LoopCompletedBody } from '@osmosis/core/wire'
import { silentLogger, type ServableApp } from '@osmosis/server'

import { systemicFailure } from './systemic-failure.ts'

/** A model call that was answered, before the loop sees the answer. */
export interface AnsweredCall {
  readonly messages: readonly Record<string, unknown>[]
  readonly status: number
  /** Text of the answer. */
  readonly text: string
}

/** Decides what becomes of an answer: null lets it pass, a text refuses the call with it. */
export type StepHook = (call: AnsweredCall) => Promise<string | null>

/**
 * A trainer for one agent loop in the same process: it answers model calls by a policy, and takes
 * the results. The loop talks to it over HTTP, as it does to a real one.
 */
export class LocalTrainer implements ServableApp {
  /** What rollouts have to send as their `api_key`. */
  readonly apiKey = randomBytes(24).toString('base64url')
  readonly requiresKey = true
  readonly logger = silentLogger
  readonly #policy: PolicyModel
  readonly #tools = new Map<string, readonly FunctionTool[]>()
  readonly #results = new Map<string, PromiseWithResolvers<LoopCompletedBody>>()
  readonly #end = new AbortController()
  #systemicFailure: string | null = null
  /** Told of every answer; null: all pass. */
  onAnswer: StepHook | null = null

  constructor(policy: PolicyModel) {
    this.#policy = policy
  }

  /** Why no row can succeed; null as long as that is not known. */
  get systemicFailure(): string | null {
    return this.#systemicFailure
  }

  /** Resolves with the result of a rollout; to be called before that is begun. */
  async result(rolloutId: string): Promise<LoopCompletedBody> {
    const waiting = Promise.withResolvers<LoopCompletedBody>()
    this.#results.set(rolloutId, waiting)
    return waiting.promise
  }

  /** Sets the tools of a rollout, which go into each of its model calls. */
  setTools(rolloutId: string, tools: readonly FunctionTool[]): void {
    this.#tools.set(rolloutId, tools)
  }

  /** Ends the model calls that are still going on. */
  async drain(): Promise<void> {
    this.#end.abort()
  }

  fetch = async (request: Request): Promise<Response> => {
    if (request.headers.get('authorization') !== `Bearer ${this.apiKey}`) {
      return Response.json({ detail: 'Unauthorized' }, { status: 401 })
    }
    const body = (await request.json()) as Record<string, unknown>
    const { pathname } = new URL(request.url)
    if (pathname === '/v1/chat/completions') return this.#chat(body)
    this.#complete(body as unknown as LoopCompletedBody)
    return Response.json({ status: 'ok' })
  }

  #complete(body: LoopCompletedBody): void {
    this.#results.get(body.rollout_id)?.resolve(body)
    this.#results.delete(body.rollout_id)
    this.#tools.delete(body.rollout_id)
  }

  async #chat(body: Record<string, unknown>): Promise<Response> {
    const { rollout_id: rolloutId, logprobs: _, ...request } = body
    const id = String(rolloutId)
    // A trainer adds the tools that the init answer named.
    const tools = this.#tools.get(id) ?? []
    const { text, status, headers } = await this.#ask(id, {
      ...request,
      ...(tools.length === 0 ? {} : { tools }),
    })
    const failure = systemicFailure(status, text)
    if (failure !== null) {
      this.#systemicFailure ??= failure
      // Nothing that waiting could change, so nothing to be asked for again.
      return Response.json({ error: { message: failure } }, { status: 424 })
    }
    const messages = request['messages'] as Record<string, unknown>[]
    const refusal = await this.onAnswer?.({ messages, status, text })
    if (refusal) return Response.json({ detail: refusal }, { status: 400 })
    return new Response(text, { status, headers })
  }

  async #ask(rolloutId: string, body: Record<string, unknown>): Promise<PolicyAnswer> {
    const { signal } = this.#end
    try {
      const call = { rolloutId, sampleId: '', body, headers: {}, signal }
      const response = await this.#policy.respond(call)
      const text = await response.text()
      return { text, status: response.status, headers: passedOn(response) }
    } catch (error) {
      const text = JSON.stringify({ error: { message: errorMessage(error) } })
      return { text, status: 500, headers: { 'content-type': 'application/json' } }
    }
  }
}

/** An answer that has come to its end. */
interface PolicyAnswer {
  readonly text: string
  readonly status: number
  readonly headers: Record<string, string>
}

function passedOn(response: Response): Record<string, string> {
  const names = ['content-type', 'retry-after']
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = response.headers.get(name)
      return value === null ? [] : [[name, value]]
    }),
  )
}
