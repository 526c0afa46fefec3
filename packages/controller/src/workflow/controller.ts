import { randomUUID } from 'node:crypto'

import type { HttpBindings } from '@hono/node-server'
import { OsmosisError, isOsmosisError } from '@osmosis/core'
import {
  type RolloutStatus,
  type LeasedRolloutRequestBody,
  type RolloutRequestBody,
  completionCallbackSchema,
  graderCallbackSchema,
} from '@osmosis/protocol/wire'
import { Hono, type Context } from 'hono'

import { type Lease, admit, followResult, type LeasedResult } from '../client/lease.ts'
import { readCallback, Refusal } from '../http/request-body.ts'
import { openHost, ownKey, type Routes } from '../http/rollout-host.ts'
import type { ServerAddress, ServerConnection } from '../http/server-client.ts'
import type { PolicyModel } from '../policy/policy-model.ts'
import { driveRollout } from '../session/drive-rollout.ts'
import {
  RolloutSessions,
  type CallbackConflict,
  type RolloutFacts,
} from '../session/rollout-sessions.ts'
import { policyRoute } from './policy-route.ts'
import { type RolloutOrder, toLeasedRequest, toRolloutRequest } from './rollout-order.ts'
import {
  gradedOutcome,
  toCompletionReport,
  ungradedOutcome,
  type WorkflowSessions,
  unreportedOutcome,
  type RolloutOutcome,
  type WorkflowRolloutFacts,
  type WorkflowState,
  type CompletionReport,
} from './rollout-outcome.ts'

/** Options of {@link createController}. */
export interface ControllerOptions {
  /** Answers the model calls of all rollouts; the caller owns it. */
  readonly policy: PolicyModel
  /** Default server of `run`. */
  readonly server?: ServerAddress
  /** Address to listen on. Default: `127.0.0.1`. */
  readonly host?: string
  /** Default: 0, any free port. */
  readonly port?: number
  /** Bearer the callbacks must carry. Default: the policy's, else random. */
  readonly callbackToken?: string
  /**
   * Bearer the model calls must carry. Default: that of the callbacks, because some rollout servers support one
   * key only.
   */
  readonly policyToken?: string
  /**
   * Commits the outcome of a rollout, e.g. to a journal: awaited before the callback is acknowledged and before
   * `run` resolves. Called until one call has resolved, never concurrently for one rollout. When it throws, the
   * callback is answered with 500, so that the rollout server sends it again. Also called for timeouts and
   * cancellations; see `status`.
   */
  readonly onTerminal?: (outcome: RolloutOutcome) => void | Promise<void>
  /** Called for callbacks that contradict an earlier one, which is not changed. */
  readonly onConflict?: (conflict: CallbackConflict) => void
}

/** Options of `Controller.run`. */
export interface RunOptions {
  /** Cancels the rollout. */
  readonly signal?: AbortSignal
  /** Default: the controller's `server`. */
  readonly server?: ServerAddress
  /**
   * Commits the outcome of this rollout, before `onTerminal` of the controller.
   */
  readonly onTerminal?: (outcome: RolloutOutcome) => void | Promise<void>
  /**
   * Whether to fetch the result under a lease, so that the server calls this controller only for model calls. A
   * server that supports only callbacks refuses such an order with 422; it then gets this and all later orders
   * with callbacks. Default: false.
   */
  readonly fetchResult?: boolean
  /** Called with each new status of a rollout whose result is fetched. */
  readonly onStatus?: (status: RolloutStatus) => void
}

/** The training cluster's side of the rollout protocol, listening. */
export interface Controller extends AsyncDisposable {
  /** Base URL of the policy endpoint and the callback listener, without a slash at the end. */
  readonly url: string
  readonly callbackToken: string
  readonly policyToken: string
  /**
   * Sends one rollout and waits for its end. A failed or timed-out rollout is an outcome, not an error. While
   * the server is full (429, 503), the order is sent again after its `Retry-After`.
   *
   * When `signal` aborts, the rollout is cancelled at the server and the signal's reason is thrown, unless the
   * rollout had already ended.
   *
   * @throws OsmosisError with code `invalid_request` for an order that cannot be sent,
   * `unauthorized` when the server refuses the key, `protocol_error` for any other answer (its
   * status is in `status`) or none at all; the error of `onTerminal` for a timeout or a cancellation.
   */
  run(order: RolloutOrder, options?: RunOptions): Promise<RolloutOutcome>
  /** Cancels running rollouts and stops listening. Safe to call again. */
  close(): Promise<void>
}

/**
 * Opens a controller: an HTTP server for model calls and callbacks, which sends rollouts to a rollout server.
 * The caller closes it.
 *
 * | route | bearer |
 * |---|---|
 * | `POST /v1/rollouts/{id}/chat/completions` | `policyToken` |
 * | `POST /v1/rollouts/{id}/completion`, `.../grader` | `callbackToken` |
 * | `GET /health` | none |
 *
 * @throws OsmosisError with code `invalid_config` for a token that a header cannot carry and an address that cannot be
 * opened, `port_in_use` when the address is in use
 */
export async function createController(options: ControllerOptions): Promise<Controller> {
  const given = options.policyToken
  const ownPolicyToken = given === undefined ? undefined : ownKey('policyToken', given)
  const callbackToken = ownKey('callbackToken', options.callbackToken ?? ownPolicyToken)
  const policyToken = ownPolicyToken ?? callbackToken
  const sessions: WorkflowSessions = new RolloutSessions<RolloutOutcome, WorkflowState>(options)
  const routes = new Hono<{ Bindings: HttpBindings }>()
    .route('/', policyRoute(sessions, options.policy, policyToken))
    .route('/', callbackRoutes(sessions, callbackToken))
  const { host, port } = options
  const opened = await openHost(routes, { name: 'controller', host, port })
  const address = { url: opened.url, callbackToken, policyToken }
  /** URLs of servers without leases. */
  const callbacksOnly = new Set<string>()

  async function runWorkflow(
    order: RolloutOrder,
    server: ServerAddress,
    signal: AbortSignal,
    { onTerminal, onStatus = () => {}, fetchResult = false }: Omit<RunOptions, 'server' | 'signal'>,
  ): Promise<RolloutOutcome> {
    signal.throwIfAborted()
    const rolloutId = order.rolloutId ?? randomUUID().replaceAll('-', '')
    const { timeoutMs = null, grade: graded = true } = order
    const body = toRolloutRequest(rolloutId, order, address)
    const state = { graded, completion: null, completedAt: null }
    const session = sessions.register(rolloutId, state, onTerminal)
    const known = (): Pick<WorkflowRolloutFacts, 'completion' | 'gradingMs'> => ({
      completion: session.state.completion,
      gradingMs: null,
    })
    const connection = { server, client: opened.client }
    let lease: Lease | undefined
    return driveRollout({
      sessions,
      session,
      signal,
      timeoutMs,
      send: async (sending) => {
        const fetches = fetchResult && !callbacksOnly.has(server.url)
        if (fetches) lease = await admitLeased(connection, leasedBody(order, body), sending)
        if (lease !== undefined) {
          session.markSent()
          onStatus('queued')
          return
        }
        const sent = { signal: sending, onSend: () => session.markSent() }
        await opened.client.order(server, '/rollout', body, sent)
        if (fetches) callbacksOnly.add(server.url)
      },
      follow: async (following) => {
        if (lease === undefined) return
        const end = await followLeased(connection, lease, { signal: following, onStatus })
        await session.end((facts) => leasedOutcome(facts, end))
      },
      timedOut: (facts) => {
        const limit = `no terminal callback within ${(timeoutMs ?? Infinity) / 1000} s`
        return unreportedOutcome({ ...facts, ...known() }, 'timeout', limit)
      },
      cancelled: (facts) => unreportedOutcome({ ...facts, ...known() }, 'cancelled', 'cancelled'),
      stop: () => opened.client.cancel(server, rolloutId),
    })
  }

  return {
    ...address,
    async run(order, { server = options.server, signal, ...run } = {}) {
      if (server === undefined) {
        throw new OsmosisError(
          'invalid_config',
          'No rollout server is configured. Pass server to createController or to run.',
        )
      }
      return opened.run(signal, (running) => runWorkflow(order, server, running, run))
    },
    close: () => opened.close(),
    [Symbol.asyncDispose]: () => opened.close(),
  }
}

/** The same order without callbacks. */
function leasedBody(
  order: RolloutOrder,
  { rollout_id: rolloutId, chat_completions_url: url, llm_api_key: key }: RolloutRequestBody,
): LeasedRolloutRequestBody {
  const policy = { chatCompletionsUrl: url, llmApiKey: key ?? null }
  return toLeasedRequest({ ...order, ...policy, ...(rolloutId && { rolloutId }) })
}

/**
 * The callback routes. They check, in this order: bearer (401), body and schema (422), the body's id against the
 * path's (422), whether the id is known (404). They acknowledge with `{"ok":true}` once the outcome is committed; a
 * failed commit is a 500, after which servers send the callback again.
 */
function callbackRoutes(sessions: WorkflowSessions, key: string): Routes {
  const app: Routes = new Hono<{ Bindings: HttpBindings }>()

  app.post('/v1/rollouts/:rolloutId/completion', async (c) => {
    const schema = completionCallbackSchema
    const body = await readCallback(c.req.raw, { key, schema, notJson: 422 })
    const rolloutId = idOf(c.req.param('rolloutId'), body)
    const callback = { kind: 'completion', body } as const
    const session = sessions.find(rolloutId)
    // A cancelled rollout is not graded.
    const isEnd = body.status === 'cancelled' || typeof session !== 'object'
    if (isEnd || !session.state.graded) {
      const known = await sessions.conclude(rolloutId, callback, (facts, state) => {
        const ending = toCompletionReport(body)
        // A rollout that is cancelled while it is graded may have reported a success before.
        const completion = (state.completion ??= ending)
        return ungradedOutcome({ ...facts, completion, gradingMs: null }, ending)
      })
      return acknowledge(c, known)
    }
    const known = sessions.note(rolloutId, callback)
    session.state.completion ??= toCompletionReport(body)
    session.state.completedAt ??= performance.now()
    return acknowledge(c, known)
  })

  app.post('/v1/rollouts/:rolloutId/grader', async (c) => {
    const schema = graderCallbackSchema
    const body = await readCallback(c.req.raw, { key, schema, notJson: 422 })
    const rolloutId = idOf(c.req.param('rolloutId'), body)
    const known = await sessions.conclude(rolloutId, { kind: 'grader', body }, (facts, state) => {
      const { completion, completedAt } = state
      const gradingMs = completedAt === null ? null : performance.now() - completedAt
      return gradedOutcome({ ...facts, completion, gradingMs }, body)
    })
    return acknowledge(c, known)
  })
  return app
}

function idOf(rolloutId: string, body: { rollout_id?: string | null | undefined }): string {
  if ((body.rollout_id ?? rolloutId) === rolloutId) return rolloutId
  throw new Refusal(422, { detail: 'rollout_id mismatch' })
}

function acknowledge(c: Context, known: boolean): Response {
  return known ? c.json({ ok: true }) : c.json({ detail: 'unknown rollout_id' }, 404)
}

/** The fetched result of a rollout. */
interface FetchedEnd {
  readonly result: LeasedResult
  /** From the first `grading` status to the end. Milliseconds; null without that status. */
  readonly gradingMs: number | null
}

/**
 * Sends an order whose result is to be fetched. Undefined when the server refuses its body, because it supports
 * only callbacks.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error` for any other refusal; the reason of
 * `signal`
 */
async function admitLeased(
  connection: ServerConnection,
  body: LeasedRolloutRequestBody,
  signal: AbortSignal,
): Promise<Lease | undefined> {
  try {
    return await admit(connection, body, { limitMs: Infinity, signal })
  } catch (error) {
    if (isOsmosisError(error) && error.status === 422) return undefined
    throw error
  }
}

/**
 * Fetches the result of a rollout until it has ended.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error` when the result cannot be fetched; the
 * reason of `signal`
 */
async function followLeased(
  connection: ServerConnection,
  lease: Lease,
  {
    signal,
    onStatus,
  }: { readonly signal: AbortSignal; readonly onStatus: (status: RolloutStatus) => void },
): Promise<FetchedEnd> {
  const end: { result?: LeasedResult; gradingAt?: number } = {}
  await followResult(connection, lease, {
    signal,
    onResult(result) {
      if (result.status === 'grading') end.gradingAt ??= performance.now()
      if (result.status !== end.result?.status) onStatus(result.status)
      end.result = result
    },
  })
  const { result, gradingAt } = end
  if (result === undefined)
    throw new TypeError('a rollout was followed to its end without a result')
  return { result, gradingMs: gradingAt === undefined ? null : performance.now() - gradingAt }
}

/** The outcome of a fetched result. Its only sample has no name on the wire. */
function leasedOutcome(facts: RolloutFacts, { result, gradingMs }: FetchedEnd): RolloutOutcome {
  const { status, sample, errorMessage, errorCategory } = result
  const ending = status === 'success' || status === 'cancelled' ? status : 'failure'
  const why = { errorMessage, errorCategory }
  // The result does not say which of workflow and grader failed. If grading started, the workflow had not failed.
  const completion: CompletionReport =
    ending === 'failure' && gradingMs !== null
      ? { status: 'success', errorMessage: null, errorCategory: null, extraFields: null }
      : { status: ending, ...why, extraFields: null }
  return {
    ...facts,
    status: ending,
    samples: new Map(sample === null ? [] : [['sample', { id: 'sample', ...sample, calls: [] }]]),
    ...why,
    completion,
    gradingMs,
  }
}
