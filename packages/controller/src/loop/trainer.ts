import { randomUUID } from 'node:crypto'

import type { HttpBindings } from '@hono/node-server'
import { OsmosisError, errorMessage } from '@osmosis/core'
import { carriesKey } from '@osmosis/core/http'
import {
  loopInitResponseSchema,
  type FunctionTool,
  loopChatRequestSchema,
  loopCompletedSchema,
  type LoopChatRequestBody,
  loopInitRequestSchema,
  type LoopInitRequestInput,
} from '@osmosis/protocol/wire'
import { Hono } from 'hono'

import { readCallback, readJson, Refusal } from '../http/request-body.ts'
import { openHost, ownKey, type Routes } from '../http/rollout-host.ts'
import type { ServerAddress } from '../http/server-client.ts'
import {
  callPolicy,
  callSignal,
  forwardedHeaders,
  refuseCall,
  sessionOfCall,
  whileRunning,
  wrongKey,
} from '../policy/model-call.ts'
import { type PolicyModel, policyErrorBody } from '../policy/policy-model.ts'
import { observeUsage, type TokenUsage } from '../policy/usage.ts'
import { systemicFailure } from '../policy/watch-policy.ts'
import { driveRollout } from '../session/drive-rollout.ts'
import { RolloutSessions, type CallbackConflict } from '../session/rollout-sessions.ts'
import { checkedOrder } from '../workflow/rollout-order.ts'
import {
  unreportedLoop,
  type AnswerHook,
  type LoopOutcome,
  type LoopSessions,
  type LoopState,
  reportedOutcome,
} from './loop-outcome.ts'

/**
 * The routes that a loop calls. Both refuse, in this order: a wrong key (401), a body that is too large (413),
 * not UTF-8 (422), not JSON (400) or against the schema (422), an unknown rollout (404). A model call is also
 * refused when its rollout has ended (410), and with 424, which is not retried, when the policy cannot answer
 * any call. A result is acknowledged once it is committed; a failed commit is a 500, after which servers send
 * the result again.
 */
function trainerRoutes(sessions: LoopSessions, policy: PolicyModel, key: string): Routes {
  const app: Routes = new Hono<{ Bindings: HttpBindings }>()

  app.post('/v1/chat/completions', async (c) => {
    if (!carriesKey(c.req.header('authorization'), key)) throw wrongKey()
    const request = await readChatRequest(c.req.raw)
    const { rollout_id: rolloutId, logprobs: _, ...call } = request
    const session = sessionOfCall(sessions, rolloutId)
    const signal = callSignal(c.env.outgoing, session)
    const { tools, onAnswer } = session.state
    // A loop may call before the answer to its init has arrived.
    const declared = await whileRunning(session, signal, () => tools.promise)

    const report = session.usage.beginCall()
    const { authorization: _secret, ...headers } = c.req.header()
    const body = { ...call, ...(declared.length === 0 ? {} : { tools: declared }) }
    const answer = await callPolicy(policy, { rolloutId, sampleId: '', body, headers, signal })
    const reading = (): ReturnType<typeof readAnswer> => readAnswer(answer, report)
    const { status, text, headers: forwarded } = await whileRunning(session, signal, reading)
    const failure = systemicFailure(status, text)
    if (failure !== null) throw new Refusal(424, policyErrorBody(424, 'policy_unusable', failure))
    const refusal = await onAnswer?.({ messages: call.messages, status, text })
    if (refusal) throw new Refusal(400, { detail: refusal })
    return new Response(text === '' ? null : text, { status, headers: forwarded })
  })

  app.post('/v1/rollout/completed', async (c) => {
    const body = await readCallback(c.req.raw, { key, schema: loopCompletedSchema, notJson: 400 })
    const known = await sessions.conclude(body.rollout_id, { kind: 'completed', body }, (facts) =>
      reportedOutcome(facts, body),
    )
    return known ? c.json({ status: 'ok' }) : c.json({ detail: 'unknown rollout_id' }, 404)
  })
  return app
}

async function readChatRequest(request: Request): Promise<LoopChatRequestBody> {
  const json = await readJson(request, {
    notJson: 400,
    refusal: (status, code, fault) =>
      policyErrorBody(status, code, `The request body is ${fault}.`),
  })
  const parsed = loopChatRequestSchema.safeParse(json)
  if (parsed.success) return parsed.data
  const { path = [], message = '' } = parsed.error.issues[0] ?? {}
  throw refuseCall(422, 'invalid_body', `${['body', ...path.map(String)].join('.')}: ${message}`)
}

const jsonHeaders = { 'content-type': 'application/json' }

/** Reads the whole answer: loops request no streams, and an answer that broke off is a failed call. */
async function readAnswer(
  answer: Response,
  report: (usage: TokenUsage) => void,
): Promise<{ status: number; text: string; headers: Record<string, string> }> {
  const observe = observeUsage(answer.headers.get('content-type') ?? '', report)
  const decoder = new TextDecoder()
  let text = ''
  try {
    const chunks: AsyncIterable<Uint8Array> = answer.body ?? new Blob([]).stream()
    for await (const chunk of observe(chunks)) text += decoder.decode(chunk, { stream: true })
  } catch (error) {
    const message = `The answer of the policy broke off: ${errorMessage(error)}`
    const body = policyErrorBody(500, 'policy_connection_lost', message)
    return { status: 500, text: JSON.stringify(body), headers: jsonHeaders }
  }
  const headers = forwardedHeaders(answer.headers)
  return { status: answer.status, text: text + decoder.decode(), headers }
}

/** Options of {@link createTrainer}. */
export interface TrainerOptions {
  /** Answers the model calls of all rollouts; the caller owns it. */
  readonly policy: PolicyModel
  /** Default server of `run`. */
  readonly server?: ServerAddress
  /** Address to listen on. Default: `127.0.0.1`. */
  readonly host?: string
  /** Default: 0, any free port. */
  readonly port?: number
  /** Bearer the model calls and results must carry. Default: random. */
  readonly apiKey?: string
  /**
   * Commits the outcome of a rollout, e.g. to a journal: awaited before the result is acknowledged and before
   * `run` resolves. Called until one call has resolved, never concurrently for one rollout. When it throws, the
   * result is answered with 500, so that the loop's server sends it again. Also called for timeouts and
   * cancellations; see `status`.
   */
  readonly onTerminal?: (outcome: LoopOutcome) => void | Promise<void>
  /** Called for results that contradict an earlier one, which is not changed. */
  readonly onConflict?: (conflict: CallbackConflict) => void
}

/** Options of `Trainer.run`. */
export interface TrainerRunOptions {
  /** Cancels the rollout. */
  readonly signal?: AbortSignal
  /** Default: the trainer's `server`. */
  readonly server?: ServerAddress
  /**
   * Called with the tools of the accepted rollout, before the policy is called. Not called for a rollout that
   * ends before the server has answered.
   */
  readonly onAccepted?: (tools: readonly FunctionTool[]) => void
  /** Receives each answer of the policy before the loop does, and may refuse the call instead. */
  readonly onAnswer?: AnswerHook
  /**
   * Commits the outcome of this rollout, before `onTerminal` of the trainer.
   */
  readonly onTerminal?: (outcome: LoopOutcome) => void | Promise<void>
}

/** The training cluster's side of the agent-loop protocol, listening. */
export interface Trainer extends AsyncDisposable {
  /** Base URL that loops call, without a slash at the end. */
  readonly url: string
  readonly apiKey: string
  /**
   * Starts one rollout of a hand-written loop and waits for its result. A failed or timed-out rollout is an
   * outcome, not an error. While the server is full (429, 503), the order is sent again after its `Retry-After`.
   *
   * When `signal` aborts, the loop's model calls are refused and the signal's reason is thrown, unless the
   * rollout had already ended. The protocol cannot stop the loop.
   *
   * @throws OsmosisError with code `invalid_request` for an order that cannot be sent,
   * `unauthorized` when the server refuses the key, `protocol_error` for any other answer (its
   * status is in `status`) or none at all; the error of `onTerminal` for a timeout or a cancellation.
   */
  run(order: LoopOrder, options?: TrainerRunOptions): Promise<LoopOutcome>
  /** Cancels running rollouts and stops listening. Safe to call again. */
  close(): Promise<void>
}

/**
 * Opens a trainer: an HTTP server that answers the model calls of hand-written loops and receives their
 * results, and starts rollouts at the server of such a loop. The caller closes it.
 *
 * | route | bearer |
 * |---|---|
 * | `POST /v1/chat/completions` | `apiKey` |
 * | `POST /v1/rollout/completed` | `apiKey` |
 * | `GET /health` | none |
 *
 * @throws OsmosisError with code `invalid_config` for a key that a header cannot carry and an address that cannot be
 * opened, `port_in_use` when the address is in use
 */
export async function createTrainer(options: TrainerOptions): Promise<Trainer> {
  const apiKey = ownKey('apiKey', options.apiKey)
  const sessions: LoopSessions = new RolloutSessions<LoopOutcome, LoopState>(options)
  const { host, port } = options
  const routes = trainerRoutes(sessions, options.policy, apiKey)
  const opened = await openHost(routes, { name: 'trainer', host, port })
  const address = { url: opened.url, apiKey }

  async function runLoop(
    order: LoopOrder,
    server: ServerAddress,
    signal: AbortSignal,
    hooks: Pick<TrainerRunOptions, 'onAccepted' | 'onAnswer' | 'onTerminal'>,
  ): Promise<LoopOutcome> {
    signal.throwIfAborted()
    const { rolloutId = randomUUID().replaceAll('-', ''), timeoutMs = null } = order
    const body = toInitRequest(rolloutId, order, address)
    const tools = Promise.withResolvers<readonly FunctionTool[]>()
    const state = { tools, onAnswer: hooks.onAnswer }
    const session = sessions.register(rolloutId, state, hooks.onTerminal)
    return driveRollout({
      sessions,
      session,
      signal,
      timeoutMs,
      send: async (sending) => {
        const sent = { signal: sending, onSend: () => session.markSent() }
        const accepted = readAcceptance(await opened.client.order(server, initPath, body, sent))
        hooks.onAccepted?.(accepted)
        tools.resolve(accepted)
      },
      timedOut: (facts) =>
        unreportedLoop(facts, 'timeout', `no result within ${(timeoutMs ?? Infinity) / 1000} s`),
      cancelled: (facts) => unreportedLoop(facts, 'cancelled', 'cancelled'),
      // The protocol has no route to stop a loop; its next model call is refused.
      stop: () => Promise.resolve(),
    })
  }

  return {
    ...address,
    async run(order, { server = options.server, signal, ...hooks } = {}) {
      if (server === undefined) {
        throw new OsmosisError(
          'invalid_config',
          'No agent loop is configured. Pass server to createTrainer or to run.',
        )
      }
      return opened.run(signal, (running) => runLoop(order, server, running, hooks))
    },
    close: () => opened.close(),
    [Symbol.asyncDispose]: () => opened.close(),
  }
}

const initPath = '/v1/rollout/init'

function readAcceptance(text: string): readonly FunctionTool[] {
  try {
    return loopInitResponseSchema.parse(JSON.parse(text)).tools
  } catch (cause) {
    throw new OsmosisError(
      'protocol_error',
      `POST ${initPath} was accepted with something other than the rollout's id and tools: ${text.slice(0, 200)}`,
      { cause },
    )
  }
}

/** One rollout of a hand-written loop to run: a dataset row and how long it may take. */
export interface LoopOrder {
  /** At most 256 characters, not only white space. Default: a new one. */
  readonly rolloutId?: string
  /** The prompt, as chat messages. */
  readonly messages: readonly Readonly<Record<string, unknown>>[]
  /** Parameters of the model calls, by their names on the wire. Default: none. */
  readonly completionParams?: Readonly<Record<string, unknown>>
  /** Maximum number of answers of the policy; the loop enforces it. Default: the server's, which is 10. */
  readonly maxTurns?: number
  /** Maximum completion tokens of the whole rollout; the loop enforces it. Default: 8192. */
  readonly maxTokensTotal?: number
  /** Reaches the loop, e.g. `ground_truth`. Default: empty. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /**
   * How long to wait for the result once the server has accepted the order. Milliseconds.
   * Default: null, no limit.
   */
  readonly timeoutMs?: number | null
}

/**
 * Builds the body of `POST /v1/rollout/init`.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
function toInitRequest(
  rolloutId: string,
  order: LoopOrder,
  trainer: { readonly url: string; readonly apiKey: string },
): LoopInitRequestInput {
  const { messages, completionParams = {}, maxTurns, maxTokensTotal, metadata = {} } = order
  const body = {
    rollout_id: rolloutId,
    server_url: trainer.url,
    messages: [...messages],
    completion_params: completionParams,
    ...(maxTurns === undefined ? {} : { max_turns: maxTurns }),
    ...(maxTokensTotal === undefined ? {} : { max_tokens_total: maxTokensTotal }),
    metadata,
    api_key: trainer.apiKey,
  } satisfies LoopInitRequestInput
  checkedOrder(loopInitRequestSchema, body)
  return body
}
