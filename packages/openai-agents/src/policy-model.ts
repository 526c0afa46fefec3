import {
  type Model,
  type ModelRequest,
  type ModelResponse,
  type ModelRetryAdvice,
  type ModelRetryAdviceRequest,
  OpenAIChatCompletionsModel,
  type StreamEvent,
  Usage,
} from '@openai/agents'
import {
  definePolicyFaults,
  getRolloutContext,
  OsmosisError,
  type RolloutContext,
  isOsmosisError,
} from '@osmosis/core'
import { policyModelName, isRetryableStatus } from '@osmosis/core/policy'
import { recordOf, wrongRollout } from '@osmosis/core/workflow'

import { type CallUseOptions, PolicyChatClient } from './chat-client.ts'
import { sdkFault } from './policy-faults.ts'
import { currentRecord, currentScope, noteAnswer } from './run-scope.ts'
import { type SessionRecord, sessionsOf } from './session-record.ts'

definePolicyFaults(sdkFault)

type UsageInput = ConstructorParameters<typeof Usage>[0]
type ResponseDone = Extract<StreamEvent, { type: 'response_done' }>

/**
 * The policy of a rollout as a model of the SDK. What a call says and how it is read is the SDK's
 * own chat completions model; how it reaches the policy is the rollout's policy client.
 */
export class AgentsPolicyModel implements Model {
  readonly #context: RolloutContext
  readonly #use: CallUseOptions

  constructor(context: RolloutContext, use: CallUseOptions) {
    this.#context = context
    this.#use = use
  }

  /** The same model for calls of an agent of this name. */
  namedFor(agent: string): AgentsPolicyModel {
    return new AgentsPolicyModel(this.#context, { ...this.#use, agent })
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    for await (const event of this.getStreamedResponse(request)) {
      if (event.type !== 'response_done') continue
      const { id, usage, ...response } = event.response
      // The SDK's own types differ only in optional fields that may also be undefined.
      return { ...response, responseId: id, usage: new Usage(usage as UsageInput) } as ModelResponse
    }
    throw new OsmosisError('policy_stream_error', 'The policy answered nothing.')
  }

  async *getStreamedResponse(request: ModelRequest): AsyncGenerator<StreamEvent> {
    const record = this.#record()
    // A run that only inherits its sample talks about something else than the session holds.
    const own = currentScope()?.record === record
    if (own) record.noteModelCall(request.input, [])

    // One client and one inner model per call: concurrent runs share no state.
    const client = new PolicyChatClient(this.#context.policy(record.name), this.#use)
    const inner = new OpenAIChatCompletionsModel(client.forSdk(), policyModelName)
    try {
      for await (const event of inner.getStreamedResponse(request)) {
        if (event.type !== 'response_done') {
          yield event
          continue
        }
        request.signal?.throwIfAborted()
        const done = completed(event, client.finishReason)
        if (this.#use.trainable !== false) noteAnswer(this.#context, done.response.id)
        if (own) record.noteModelCall(request.input, done.response.output)
        yield done
      }
    } catch (error) {
      // The SDK could not make the request of its items.
      if (!client.wasCalled) {
        const { trainable = true, agent } = this.#use
        const about = { purpose: 'agent', trainable, agent }
        recordOf(this.#context).log(record.name).failures.fail(error, { about })
      }
      throw error
    }
  }

  getRetryAdvice(args: ModelRetryAdviceRequest): ModelRetryAdvice | undefined {
    return retryAdvice(args.error)
  }

  /** The session of the run that makes this call. */
  #record(): SessionRecord {
    const ambient = getRolloutContext()
    if (ambient !== undefined && ambient !== this.#context) {
      throw wrongRollout('An OsmosisAgent', this.#context, ambient)
    }
    const record = currentRecord()
    if (record === undefined) return this.#onlyRecord()
    record.assertBelongsTo(this.#context)
    return record
  }

  /** For a call that no run with a session is known to be around. */
  #onlyRecord(): SessionRecord {
    const known = currentScope() === undefined ? sessionsOf(this.#context) : []
    const [only, ...others] = known
    if (only !== undefined && others.length === 0) return only
    if (only !== undefined) {
      throw new OsmosisError(
        'missing_session',
        `Cannot tell which of the sessions ${known.map(({ name }) => `"${name}"`).join(', ')} this model call belongs to: run() was that of another copy of @openai/agents, or was called outside of AgentWorkflow.run(). Install one copy only, or call instrumentRunner(Runner) with the Runner of that copy.`,
      )
    }
    throw new OsmosisError(
      'missing_session',
      'The policy was called by a run without an OsmosisMemorySession. Pass `{ session: new OsmosisMemorySession({ name }) }` to run(), and the same session to a run that continues it.',
    )
  }
}

/** The end of an answer as runs need it, with why the policy stopped in `providerData`. */
function completed(event: ResponseDone, finishReason: string | undefined): ResponseDone {
  const { response } = event
  const answered = response.output.some(
    ({ type }) => type === 'message' || type === 'function_call',
  )
  return {
    ...event,
    response: {
      ...response,
      // Without a message the runner would ask again and again until it is out of turns, but the
      // policy has ended its turn: with nothing, or with thinking only.
      output: answered ? response.output : [...response.output, emptyMessage(response.id)],
      providerData: { ...response.providerData, finishReason },
    },
  }
}

function emptyMessage(id: string): ResponseDone['response']['output'][number] {
  return {
    type: 'message',
    role: 'assistant',
    id,
    status: 'completed',
    content: [{ type: 'output_text', text: '' }],
  }
}

/**
 * Advice to the SDK on asking again. It asks for it only in runs with `modelSettings.retry`, the
 * user's own policy of retries on top of those that the policy client has made. Once an answer has
 * started, asking again would be a second sample of the policy, and no error of usage goes away.
 */
function retryAdvice(error: unknown): ModelRetryAdvice {
  if (!isOsmosisError(error)) return { suggested: false, replaySafety: 'unsafe' }
  const { code, status, retryAfterMs, message } = error
  const safe = code === 'policy_http_error' || code === 'policy_unreachable'
  if (!safe) {
    const responseStarted = code === 'policy_stream_error'
    return { suggested: false, replaySafety: 'unsafe', responseStarted, reason: message }
  }
  return {
    suggested: code === 'policy_unreachable' || isRetryableStatus(status ?? 0),
    replaySafety: 'safe',
    responseStarted: false,
    reason: message,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
}
