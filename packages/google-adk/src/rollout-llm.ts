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
import { converting, type FallbackModel, fallbackModel, ModelOrigin } from '@osmosis/core/workflow'

import type { AdkContent, AdkConfig } from './adk-types.ts'
import { addMissingTools, toContent, toPartial, toResponse } from './answers.ts'
import { toChatMessages } from './contents.ts'
import { adkFault, noteCall, noteCallBegins } from './policy-faults.ts'

definePolicyFaults(adkFault)

const geminiMark = Symbol.for('google.adk.geminiModel')

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
  /**
   * The model outside of rollouts, as an `LlmAgent` takes it, so that one program serves both. A function that makes it
   * is called when it is first needed.
   */
  readonly fallback?: FallbackModel<BaseLlm | string> | undefined
}

/**
 * The policy, whichever that is at the time, as a model of the ADK: `new LlmAgent({ model: new OsmosisLlm('main') })`.
 * The rollout is found when the model is called, so one agent may serve many rollouts concurrently.
 *
 * The ADK reports errors of the policy as events with an `errorCode`, and the rollout fails. Outside of rollouts it is its
 * `fallback`, in whatever the ADK asks a model for.
 */
export class OsmosisLlm extends BaseLlm {
  /** The sample id of its calls. Models of one name are one sample. */
  readonly sampleId: string
  readonly #settings: OsmosisLlmSettings
  readonly #origin = new ModelOrigin()
  /** The fallback that was given by its name. */
  #named: BaseLlm | undefined

  /**
   * @param settings - a name alone, or settings
   * @throws OsmosisError with code `duplicate_sample` when something else has the name in the active rollout, or
   * `invalid_id`
   */
  constructor(settings: string | OsmosisLlmSettings = {}) {
    super({ model: policyModelName })
    // The base class has a field, which a getter of a subclass does not replace.
    Object.defineProperty(this, 'model', { get: () => this.#modelName, enumerable: true })
    this.#settings = typeof settings === 'string' ? { name: settings } : settings
    const { name, trainable } = this.#settings
    this.sampleId = name ?? randomUUID()
    // An agent that is never run can be named in errors then.
    const rollout = getRolloutContext()
    if (rollout && name !== undefined && trainable !== false) recordOf(rollout, name)
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
      yield* substitute.generateContentAsync(llmRequest, stream, abortSignal)
      return
    }
    const { rollout, record, policy } = this.#sample()
    noteCall(rollout)
    this.maybeAppendUserContent(llmRequest)
    const call = record.begin([...llmRequest.contents])
    const request = await this.#converting(rollout, () => this.#request(llmRequest))
    const answer = policy.stream(request, this.#callOptions(abortSignal))
    for await (const chunk of answer) {
      const partial = stream ? toPartial(chunk) : undefined
      if (partial) yield partial
    }
    const completion = await answer.completion
    addMissingTools(llmRequest, completion)
    const content = await this.#converting(rollout, () => toContent(completion))
    record.succeed(call, content)
    yield toResponse(completion, content)
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

  #converting<T>(rollout: RolloutContext, convert: () => T): Promise<T> {
    const { trainable } = this.#settings
    return converting(rollout, { sampleId: this.sampleId, trainable }, convert)
  }

  #request({ contents, config = {} }: LlmRequest): ChatCompletionRequest {
    return {
      ...requestFields(config),
      ...this.#settings.extraBody,
      messages: toChatMessages(contents, config.systemInstruction),
    }
  }

  /**
   * The name that the ADK finds here: outside of rollouts that of the fallback, because the ADK decides by it which
   * tools and schemas a model can have. It reads the name before each call of the model, and counts the call then.
   */
  get #modelName(): string {
    const rollout = this.#origin.rollout
    if (rollout === undefined) return this.#substitute?.model ?? policyModelName
    if (this.#settings.trainable !== false) noteCallBegins(rollout)
    return policyModelName
  }

  /** By this mark the ADK knows models of Gemini. */
  get [geminiMark](): boolean {
    return (this.#substitute as { [geminiMark]?: boolean } | undefined)?.[geminiMark] === true
  }

  /** Whether the ADK names the interaction before, so that Google continues it. */
  get useInteractionsApi(): boolean {
    const substitute = this.#substitute as { useInteractionsApi?: boolean } | undefined
    return substitute?.useInteractionsApi === true
  }

  /** The model that answers here instead of the policy. */
  get #substitute(): BaseLlm | undefined {
    const { fallback } = this.#settings
    if (fallback === undefined || this.#origin.rollout !== undefined) return undefined
    const model = fallbackModel(fallback)
    return typeof model === 'string' ? (this.#named ??= LLMRegistry.newLlm(model)) : model
  }

  /** The sample that a call made now belongs to. */
  #sample(): { rollout: RolloutContext; record: NativeSample<AdkContent>; policy: PolicyClient } {
    const rollout = this.#origin.ofCall('An OsmosisLlm')
    if (rollout === undefined) {
      throw new OsmosisError(
        'no_rollout_context',
        'OsmosisLlm needs an active rollout: run the agent that has it inside AgentWorkflow.run(), or give it another model for outside: new OsmosisLlm({ fallback: … }).',
      )
    }
    const isTrained = this.#settings.trainable !== false
    // A conversation that is not training data must not become that of the sample.
    const record = isTrained ? recordOf(rollout, this.sampleId) : contentsRecord()
    return { rollout, record, policy: rollout.policy(this.sampleId) }
  }

  #callOptions(signal: AbortSignal | undefined): PolicyCallOptions {
    const { purpose, trainable } = this.#settings
    return { signal, purpose, trainable, headers: { 'user-agent': 'google-adk' } }
  }
}

/** The conversation of a sample in Gemini's contents. The ADK makes new objects of them for each request. */
function contentsRecord(): NativeSample<AdkContent> {
  return new NativeSample<AdkContent>({
    isSame: isDeepStrictEqual,
    // As the policy saw it: what tools return may have functions.
    toStored: (content) => JSON.parse(JSON.stringify(content)) as unknown,
  })
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

/**
 * The settings of a model call as fields of a chat completions request.
 *
 * @throws OsmosisError with code `invalid_request` for what the policy cannot do
 */
function requestFields(config: AdkConfig): Record<string, unknown> {
  if ((config.candidateCount ?? 1) > 1)
    throw unsupported('candidateCount', 'one answer is recorded')
  const modalities = config.responseModalities ?? []
  if (modalities.some((modality) => modality.toUpperCase() !== 'TEXT')) {
    throw unsupported('responseModalities', 'the policy writes text')
  }
  return {
    temperature: config.temperature,
    top_p: config.topP,
    top_k: config.topK,
    max_tokens: config.maxOutputTokens,
    stop: config.stopSequences,
    presence_penalty: config.presencePenalty,
    frequency_penalty: config.frequencyPenalty,
    seed: config.seed,
    logprobs: config.responseLogprobs,
    top_logprobs: config.logprobs,
    response_format: responseFormat(config),
    ...toolFields(config),
  }
}

function responseFormat(config: AdkConfig): unknown {
  const { responseSchema, responseJsonSchema, responseMimeType } = config
  const given: unknown = responseJsonSchema ?? responseSchema
  if (given !== undefined) {
    const schema = responseJsonSchema === undefined ? toJsonSchema(given) : given
    return { type: 'json_schema', json_schema: { name: 'response', schema } }
  }
  return responseMimeType === 'application/json' ? { type: 'json_object' } : undefined
}

function toolFields({ tools = [], toolConfig }: AdkConfig): Record<string, unknown> {
  const functions = tools.flatMap((tool) => {
    const { functionDeclarations, ...others } = tool as {
      functionDeclarations?: readonly Declaration[]
    }
    const [hosted] = Object.entries(others).flatMap(([name, value]) => (value ? [name] : []))
    if (hosted !== undefined) throw unsupported(`the tool ${hosted}`, 'Google would execute it')
    return functionDeclarations ?? []
  })
  if (functions.length === 0) return {}
  const { mode, allowedFunctionNames: names = [] } = toolConfig?.functionCallingConfig ?? {}
  const allowed =
    names.length > 0 ? functions.filter(({ name = '' }) => names.includes(name)) : functions
  return { tools: allowed.map(toWireTool), tool_choice: toolChoice(mode, allowed) }
}

interface Declaration {
  readonly name?: string
  readonly description?: string
  readonly parameters?: unknown
  readonly parametersJsonSchema?: unknown
}

function toWireTool({ name, description, parameters, parametersJsonSchema }: Declaration): object {
  const schema = parametersJsonSchema ?? toJsonSchema(parameters ?? { type: 'OBJECT' })
  return { type: 'function', function: { name, description, parameters: schema } }
}

function toolChoice(mode: string | undefined, allowed: readonly Declaration[]): unknown {
  if (mode === 'NONE') return 'none'
  if (mode !== 'ANY') return undefined
  const [only, ...others] = allowed
  if (only === undefined || others.length > 0) return 'required'
  return { type: 'function', function: { name: only.name } }
}

/** Numbers that Gemini's schemas have as text. */
const counts = new Set([
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'minProperties',
  'maxProperties',
])

/** A schema of Gemini as a JSON schema: types in lower case, `null` as one of them. */
function toJsonSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toJsonSchema)
  if (typeof schema !== 'object' || schema === null) return schema
  const { nullable, propertyOrdering: _, ...fields } = schema as Record<string, unknown>
  const converted = Object.entries(fields).map(([key, value]): [string, unknown] => {
    if (key === 'type' && typeof value === 'string') return [key, value.toLowerCase()]
    if (counts.has(key)) return [key, Number(value)]
    if (key === 'properties') return [key, mapValues(value as Record<string, unknown>)]
    return [key, key === 'items' || key === 'anyOf' ? toJsonSchema(value) : value]
  })
  const json = Object.fromEntries(converted)
  if (nullable !== true || typeof json['type'] !== 'string') return json
  return { ...json, type: [json['type'], 'null'] }
}

function mapValues(properties: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [name, toJsonSchema(value)]),
  )
}

function unsupported(what: string, why: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `OsmosisLlm does not support ${what}: ${why}. Leave it out.`,
  )
}
