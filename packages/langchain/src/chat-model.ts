import { randomUUID } from 'node:crypto'

import type { CallbackManagerForLLMRun, Callbacks } from '@langchain/core/callbacks/manager'
import type {
  BaseLanguageModelInput,
  StructuredOutputMethodOptions,
} from '@langchain/core/language_models/base'
import {
  BaseChatModel,
  type BindToolsInput,
  type LangSmithParams,
} from '@langchain/core/language_models/chat_models'
import type { ModelProfile } from '@langchain/core/language_models/profile'
import { assembleStructuredOutputPipeline } from '@langchain/core/language_models/structured_output'
import type {
  AIMessageChunk,
  BaseMessage,
  BaseMessageLike,
  MessageContent,
} from '@langchain/core/messages'
import { ChatGenerationChunk, type ChatResult, type LLMResult } from '@langchain/core/outputs'
import { type Runnable, type RunnableConfig, RunnableLambda } from '@langchain/core/runnables'
import {
  definePolicyFaults,
  type NativeSample,
  getRolloutContext,
  OsmosisError,
  type PolicyCallOptions,
  type PolicyClient,
  type RolloutContext,
  wrapRollouts,
} from '@osmosis/core'
import { type ChatCompletionRequest, policyModelName } from '@osmosis/core/policy'
import { converting, fallbackModel, ModelOrigin } from '@osmosis/core/workflow'

import { toAIMessage, usageOf, toChunk, toLastChunk } from './answer-messages.ts'
import { toChatMessages } from './chat-messages.ts'
import type { OsmosisChatModelCallOptions, OsmosisChatModelFields } from './model-fields.ts'
import { frameworkFault } from './policy-faults.ts'
import { conversationRecord, recordOf } from './sample-record.ts'
import { type OutputSchema, structuredOutput } from './structured-output.ts'
import { boundTools, logErrorsOf, toolFields, toWireTools } from './tool-fields.ts'
import { notePolicyRun, withWatchedRuns } from './watched-runs.ts'

definePolicyFaults(frameworkFault)
wrapRollouts(withWatchedRuns)

/**
 * The policy, whichever that is at the time, as a chat model of LangChain. Pass it wherever a model is expected:
 * `createAgent`, nodes of a graph, `bindTools`, `withStructuredOutput`. The rollout is found when the model is
 * called, so one object, and a graph around it, may serve many rollouts concurrently.
 *
 * Errors of the policy are thrown as `OsmosisError` and not retried: the policy client has retried already.
 * Outside of rollouts it is its `fallback`, in whatever LangChain asks a model for. Calls without one fail with code
 * `no_rollout_context`.
 */
export class OsmosisChatModel extends BaseChatModel<OsmosisChatModelCallOptions> {
  /** The sample id of its calls. Models of one name are one sample. */
  readonly sampleId: string
  readonly #fields: OsmosisChatModelFields
  readonly #origin = new ModelOrigin()

  /**
   * @param fields - a name alone, or settings
   * @throws OsmosisError with code `duplicate_sample` when something else has the name in the active rollout,
   * `invalid_id`, or `invalid_config` when answers are to be cached
   */
  constructor(fields: string | OsmosisChatModelFields = {}) {
    const settings = typeof fields === 'string' ? { name: fields } : fields
    const {
      name,
      purpose: _purpose,
      trainable,
      profile: _profile,
      fallback: _fallback,
      ...params
    } = settings
    assertNotCached(params)
    super(params)
    this.#fields = settings
    this.sampleId = name ?? randomUUID()
    if (name === undefined) return
    this.name = name
    // An agent that is never run can be named in errors then.
    const rollout = getRolloutContext()
    if (rollout && trainable !== false) recordOf(rollout, name)
  }

  static override lc_name(): string {
    return 'OsmosisChatModel'
  }

  override _llmType(): string {
    // The constructor of the base class asks before there are settings.
    // oxlint-disable-next-line no-underscore-dangle -- LangChain has no other name for it
    return (#fields in this ? this.#outside?._llmType() : undefined) ?? 'osmosis'
  }

  override getName(suffix?: string): string {
    return this.#outside?.getName(suffix) ?? super.getName(suffix)
  }

  /** The id of the model outside of rollouts, by which LangChain knows sizes of contexts and caches of prompts. */
  get model(): string | undefined {
    return (this.#outside as { model?: string } | undefined)?.model
  }

  override get profile(): ModelProfile {
    return this.#outside?.profile ?? this.#fields.profile ?? {}
  }

  override async getNumTokens(content: MessageContent): Promise<number> {
    return this.#outside?.getNumTokens(content) ?? super.getNumTokens(content)
  }

  /**
   * As ChatOpenAI has it, outside of rollouts.
   *
   * @throws OsmosisError with code `invalid_request` in a rollout, and for a model that cannot count
   */
  async getNumTokensFromMessages(messages: BaseMessage[]): Promise<unknown> {
    const outside = this.#outside as Partial<Pick<this, 'getNumTokensFromMessages'>> | undefined
    const counted = outside?.getNumTokensFromMessages?.(messages)
    if (counted !== undefined) return counted
    throw new OsmosisError(
      'invalid_request',
      'OsmosisChatModel does not count the tokens of messages: a policy has no tokenizer here. Have them counted approximately (tokenCountMethod: "approx").',
    )
  }

  override getLsParams(options: this['ParsedCallOptions']): LangSmithParams {
    const outside = this.#outside
    if (outside) return outside.getLsParams(options)
    const { temperature, maxTokens, stopSequences } = this.#fields
    const ls_stop = options.stop ?? stopSequences
    return {
      ls_provider: 'osmosis',
      ls_model_name: policyModelName,
      ls_model_type: 'chat',
      ...(temperature === undefined ? {} : { ls_temperature: temperature }),
      ...(maxTokens === undefined ? {} : { ls_max_tokens: maxTokens }),
      ...(ls_stop === undefined ? {} : { ls_stop }),
    }
  }

  /** The fields of a request besides its messages. */
  override invocationParams(options?: this['ParsedCallOptions']): Record<string, unknown> {
    const outside = this.#outside
    if (outside) return outside.invocationParams(options) as Record<string, unknown>
    const fields = this.#fields
    return {
      temperature: fields.temperature,
      top_p: fields.topP,
      top_k: fields.topK,
      frequency_penalty: fields.frequencyPenalty,
      presence_penalty: fields.presencePenalty,
      max_tokens: fields.maxTokens,
      logprobs: fields.logprobs,
      top_logprobs: fields.topLogprobs,
      ...fields.modelKwargs,
      seed: options?.seed ?? fields.seed,
      stop: options?.stop ?? fields.stopSequences,
      response_format: options?.response_format,
      parallel_tool_calls: options?.parallel_tool_calls,
      ...toolFields(options ?? {}),
    }
  }

  /**
   * @throws OsmosisError with code `invalid_request` for a tool that a provider executes, unless that is the provider of
   * the model outside of rollouts
   */
  override bindTools(
    tools: BindToolsInput[],
    kwargs: Partial<OsmosisChatModelCallOptions> = {},
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, OsmosisChatModelCallOptions> {
    for (const tool of tools) logErrorsOf(tool)
    const bound = boundTools(tools)
    if (!this.#isOutside) toWireTools(bound)
    return this.withConfig({ tools: bound, ...kwargs })
  }

  /** Every call that is not a stream comes here. */
  override async generate(
    messages: BaseMessageLike[][],
    options?: string[] | OsmosisChatModelCallOptions,
    callbacks?: Callbacks,
  ): Promise<LLMResult> {
    const call = Array.isArray(options) ? { stop: options } : options
    const outside = this.#callOutside({ ...(callbacks && { callbacks }), ...call })
    if (outside === undefined) return super.generate(messages, options, callbacks)
    const answers = await Promise.all(
      messages.map(async (prompt) => outside.model.invoke(prompt, outside.options)),
    )
    return { generations: answers.map((message) => [{ text: textOf(message), message }]) }
  }

  override async *_streamIterator(
    input: BaseLanguageModelInput,
    options?: Partial<OsmosisChatModelCallOptions>,
  ): AsyncGenerator<AIMessageChunk> {
    const outside = this.#callOutside(options)
    if (outside !== undefined) yield* await outside.model.stream(input, outside.options)
    // oxlint-disable-next-line no-underscore-dangle -- what all streams of LangChain call
    else yield* super._streamIterator(input, options)
  }

  /** What `streamEvents` has without the version of an older form, which comes from `stream`. */
  override async *_streamChatModelEvents(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): ReturnType<BaseChatModel['_streamChatModelEvents']> {
    const outside = this.#callOutside(options)
    // The types of `streamEvents` are those of the older forms.
    if (outside !== undefined) {
      const events: unknown = outside.model.streamEvents(messages, outside.options as never)
      yield* events as ChatModelEvents
    }
    // oxlint-disable-next-line no-underscore-dangle -- LangChain has no other name for it
    else yield* super._streamChatModelEvents(messages, options, runManager)
  }

  override async _generate(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    const { rollout, record, policy } = this.#sample(runManager)
    const call = record.begin(messages)
    const request = await this.#request(rollout, messages, options)
    const completion = await policy.complete(request, this.#callOptions(options))
    const message = await this.#converting(rollout, () => toAIMessage(completion))
    record.succeed(call, message)
    const usage = usageOf(completion)
    return {
      generations: [{ text: textOf(message), message }],
      llmOutput: {
        tokenUsage: {
          promptTokens: usage?.input_tokens,
          completionTokens: usage?.output_tokens,
          totalTokens: usage?.total_tokens,
        },
      },
    }
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { rollout, record, policy } = this.#sample(runManager)
    const call = record.begin(messages)
    const request = await this.#request(rollout, messages, options)
    const answer = policy.stream(request, this.#callOptions(options))
    for await (const chunk of answer) {
      const message = toChunk(chunk)
      if (message) yield* emit(message, runManager)
    }
    const completion = await answer.completion
    record.succeed(call, await this.#converting(rollout, () => toAIMessage(completion)))
    yield* emit(toLastChunk(completion), runManager)
  }

  #request(
    rollout: RolloutContext,
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
  ): Promise<ChatCompletionRequest> {
    return this.#converting(rollout, () => ({
      ...this.invocationParams(options),
      messages: toChatMessages(messages),
    }))
  }

  #converting<T>(rollout: RolloutContext, convert: () => T): Promise<T> {
    const { trainable } = this.#fields
    return converting(rollout, { sampleId: this.sampleId, trainable }, convert)
  }

  /**
   * The model with answers in the form of a schema.
   *
   * @throws OsmosisError with code `invalid_request` for a method other than `jsonSchema` (default), `jsonMode` and
   * `functionCalling`
   */
  override withStructuredOutput = ((
    schema: OutputSchema,
    config: StructuredOutputMethodOptions<boolean> = {},
  ): Runnable<BaseLanguageModelInput> => {
    const ours = (): Runnable<BaseLanguageModelInput> => {
      const { options, parser } = structuredOutput(schema, config)
      return assembleStructuredOutputPipeline(this.withConfig(options), parser, config.includeRaw)
    }
    if (this.#fields.fallback === undefined) return ours()
    let inside: Runnable<BaseLanguageModelInput> | undefined
    let theirs: Runnable<BaseLanguageModelInput> | undefined
    return RunnableLambda.from(() => {
      const outside = this.#outside
      if (outside === undefined) return (inside ??= ours())
      return (theirs ??= outside.withStructuredOutput(schema, config as never))
    })
    // Its overloads differ between versions.
  }) as BaseChatModel['withStructuredOutput']

  /** Whether the fallback answers here, and not the policy. */
  get #isOutside(): boolean {
    return this.#fields.fallback !== undefined && this.#origin.rollout === undefined
  }

  /** The model that this one is here. */
  get #outside(): BaseChatModel | undefined {
    const { fallback } = this.#fields
    return fallback !== undefined && this.#isOutside ? fallbackModel(fallback) : undefined
  }

  /** A call of the model that this one is here. Tools are bound as that model binds them. */
  #callOutside(options: Partial<OsmosisChatModelCallOptions> = {}): CallOutside | undefined {
    const model = this.#outside
    if (model === undefined) return undefined
    const { tools, ...others } = options
    if (tools === undefined || model.bindTools === undefined) return { model, options }
    // oxlint-disable-next-line no-underscore-dangle -- LangChain's own list of what is no setting of a call
    const [config, ofTools] = this._separateRunnableConfigFromCallOptions(others)
    return { model: model.bindTools([...tools], ofTools), options: config }
  }

  /** The sample that a call made now belongs to. */
  #sample(run: CallbackManagerForLLMRun | undefined): {
    rollout: RolloutContext
    record: NativeSample<BaseMessage>
    policy: PolicyClient
  } {
    const rollout = this.#origin.ofCall('An OsmosisChatModel')
    if (rollout === undefined) {
      throw new OsmosisError(
        'no_rollout_context',
        'OsmosisChatModel needs an active rollout: call the model, or the agent or graph that has it, inside AgentWorkflow.run(), or give it another model for outside: new OsmosisChatModel({ fallback: … }).',
      )
    }
    const isTrained = this.#fields.trainable !== false
    if (isTrained) notePolicyRun(rollout, run?.runId)
    // A conversation that is not training data must not become that of the sample.
    const record = isTrained ? recordOf(rollout, this.sampleId) : conversationRecord()
    return { rollout, record, policy: rollout.policy(this.sampleId) }
  }

  #callOptions({ signal }: this['ParsedCallOptions']): PolicyCallOptions {
    const { purpose, trainable } = this.#fields
    return { signal, purpose, trainable, headers: { 'user-agent': 'langchain' } }
  }
}

interface CallOutside {
  readonly model: Runnable<BaseLanguageModelInput, AIMessageChunk>
  readonly options: RunnableConfig
}

type ChatModelEvents = ReturnType<BaseChatModel['_streamChatModelEvents']>

/** A chunk for the reader of a stream, then for the listeners of the run. */
async function* emit(
  message: AIMessageChunk,
  runManager: CallbackManagerForLLMRun | undefined,
): AsyncGenerator<ChatGenerationChunk> {
  const chunk = new ChatGenerationChunk({ message, text: textOf(message) })
  yield chunk
  const place = { prompt: 0, completion: 0 }
  await runManager?.handleLLMNewToken(chunk.text, place, undefined, undefined, undefined, { chunk })
}

function textOf({ content }: BaseMessage): string {
  return typeof content === 'string' ? content : ''
}

function assertNotCached(params: object): void {
  if (!('cache' in params) || !params.cache) return
  throw new OsmosisError(
    'invalid_config',
    'OsmosisChatModel has no cache: an answer from a cache is not one of the policy. Leave `cache` out.',
  )
}
