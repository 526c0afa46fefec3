import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'

import {
  BaseLlm,
  type BaseLlmConnection,
  LLMRegistry,
  type LlmRequest,
  type LlmResponse,
} from '@google/adk'
import {
  definePolicyFaults,
  NativeSample,
  getRolloutContext,
  OsmosisError,
  type PolicyCallOptions,
  type PolicyClient,
  type RolloutContext,
  sharedSampleSource,
} from '@osmosis/core'
import { type ChatCompletionRequest, policyModelName } from '@osmosis/core/policy'

import { addMissingTools, toContent, toPartial, toResponse } from './answers.ts'
import type { AdkContent } from './adk-types.ts'
import { toChatMessages } from './contents.ts'
import { requestFields } from './request-fields.ts'

definePolicyFaults({
  // The ADK throws a plain error.
  'Max number of llm calls limit of N exceeded': { limit: 'max_llm_calls' },
})

/** Settings of an {@link OsmosisLlm}. Sampling settings stay in the agent's `generateContentConfig`. */
export interface OsmosisLlmSettings {
  /** The sample id of the model's calls; default: a random one for each model object. */
  readonly name?: string | undefined
  /** What the model's calls are for, such as `title`. Default: `agent`. */
  readonly purpose?: string | undefined
  /** Whether its answers are training data. Default: true. */
  readonly trainable?: boolean | undefined
  /** More fields of the request body, sent as they are: `min_p`, `chat_template_kwargs`, … */
  readonly extraBody?: Readonly<Record<string, unknown>> | undefined
  /** The model outside of rollouts, as an `LlmAgent` takes it, so that one program serves both. */
  readonly fallback?: BaseLlm | string | undefined
}

/**
 * The policy, whichever that is at the time, as a model of the ADK: `new LlmAgent({ model: new OsmosisLlm('main') })`.
 * The rollout is found when the model is called, so one agent may serve many rollouts concurrently.
 *
 * The ADK reports errors of the policy as events with an `errorCode`, and the rollout fails.
 */
export class OsmosisLlm extends BaseLlm {
  /** The sample id of its calls. Models of one name are one sample. */
  readonly sampleId: string
  readonly #settings: OsmosisLlmSettings
  // Code that has lost its async context, such as a callback of a native addon, finds it here.
  readonly #origin = getRolloutContext()

  /**
   * @param settings - a name alone, or settings
   * @throws OsmosisError with code `duplicate_sample` when something else has the name in the active rollout, or
   * `invalid_id`
   */
  constructor(settings: string | OsmosisLlmSettings = {}) {
    super({ model: policyModelName })
    this.#settings = typeof settings === 'string' ? { name: settings } : settings
    const { name, trainable } = this.#settings
    this.sampleId = name ?? randomUUID()
    // An agent that is never run can be named in errors then.
    if (this.#origin && name !== undefined && trainable !== false) recordOf(this.#origin, name)
  }

  /**
   * Calls the policy.
   *
   * @param stream - whether to yield pieces (`partial`) before the whole answer
   * @throws OsmosisError with code `no_rollout_context` outside of rollouts without a `fallback`, `invalid_request`
   * for what has no chat completions form, and what the policy client throws
   */
  override async *generateContentAsync(
    llmRequest: LlmRequest,
    stream = false,
    abortSignal?: AbortSignal,
  ): AsyncGenerator<LlmResponse, void> {
    const substitute = this.#substitute
    if (substitute !== undefined) {
      llmRequest.model = substitute.model
      yield* substitute.generateContentAsync(llmRequest, stream, abortSignal)
      return
    }
    const { record, policy } = this.#sample()
    this.maybeAppendUserContent(llmRequest)
    const call = record.begin([...llmRequest.contents], abortSignal)
    try {
      const answer = policy.stream(this.#request(llmRequest), this.#callOptions(abortSignal))
      for await (const chunk of answer) {
        const partial = stream ? toPartial(chunk) : undefined
        if (partial) yield partial
      }
      const completion = await answer.completion
      addMissingTools(llmRequest, completion)
      const content = toContent(completion)
      record.succeed(call, content)
      yield toResponse(completion, content)
    } catch (error) {
      record.fail(call, error)
      throw error
    } finally {
      record.end(call)
    }
  }

  /** @throws OsmosisError with code `invalid_request` instead of a connection to the policy, which has none */
  override async connect(llmRequest: LlmRequest): Promise<BaseLlmConnection> {
    const substitute = this.#substitute
    if (substitute !== undefined) return substitute.connect(llmRequest)
    throw new OsmosisError(
      'invalid_request',
      'OsmosisLlm has no live connections: run the agent with runAsync() instead of runLive().',
    )
  }

  #request({ contents, config = {} }: LlmRequest): ChatCompletionRequest {
    return {
      ...requestFields(config),
      ...this.#settings.extraBody,
      messages: toChatMessages(contents, config.systemInstruction),
    }
  }

  get #rollout(): RolloutContext | undefined {
    return getRolloutContext() ?? this.#origin
  }

  /** The model that answers here instead of the policy. */
  get #substitute(): BaseLlm | undefined {
    const { fallback } = this.#settings
    if (fallback === undefined || this.#rollout !== undefined) return undefined
    return typeof fallback === 'string' ? LLMRegistry.newLlm(fallback) : fallback
  }

  /** The sample that a call made now belongs to. */
  #sample(): { record: NativeSample<AdkContent>; policy: PolicyClient } {
    const rollout = this.#rollout
    if (rollout === undefined) {
      throw new OsmosisError(
        'no_rollout_context',
        'OsmosisLlm needs an active rollout: run the agent that has it inside AgentWorkflow.run(), or give it another model for outside: new OsmosisLlm({ fallback: … }).',
      )
    }
    const isTrained = this.#settings.trainable !== false
    // A conversation that is not training data must not become that of the sample.
    const record = isTrained ? recordOf(rollout, this.sampleId) : contentsRecord()
    return { record, policy: rollout.policy(this.sampleId) }
  }

  #callOptions(signal: AbortSignal | undefined): PolicyCallOptions {
    const { purpose, trainable } = this.#settings
    return { signal, purpose, trainable, headers: { 'user-agent': 'google-adk' } }
  }
}

/** The conversation of a sample in Gemini's contents. The ADK makes new objects of them for each request. */
function contentsRecord(): NativeSample<AdkContent> {
  return new NativeSample<AdkContent>({ isSame: isDeepStrictEqual, toStored: structuredClone })
}

const kind = Symbol.for('osmosis.google-adk')

/**
 * The record of a sample, registered with the rollout when it is new. Models of one name are one sample.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
function recordOf(rollout: RolloutContext, name: string): NativeSample<AdkContent> {
  return sharedSampleSource(rollout, name, { kind, create: contentsRecord })
}
