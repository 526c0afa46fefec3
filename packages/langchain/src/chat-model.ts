import { randomUUID } from 'node:crypto'

import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager'
import type {
  BaseLanguageModelInput,
  StructuredOutputMethodOptions,
} from '@langchain/core/language_models/base'
import {
  BaseChatModel,
  type BaseChatModelCallOptions,
  type BaseChatModelParams,
  type BindToolsInput,
  type LangSmithParams,
} from '@langchain/core/language_models/chat_models'
import {
  assembleStructuredOutputPipeline,
  createContentParser,
  createFunctionCallingParser,
} from '@langchain/core/language_models/structured_output'
import type { AIMessageChunk, BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs'
import { type Runnable, RunnableLambda } from '@langchain/core/runnables'
import {
  definePolicyFaults,
  type NativeSample,
  getRolloutContext,
  OsmosisError,
  type PolicyCallOptions,
  type PolicyClient,
  type RolloutContext,
} from '@osmosis/core'
import { policyModelName } from '@osmosis/core/policy'
import { toJsonSchema } from '@langchain/core/utils/json_schema'
import type { InteropZodType } from '@langchain/core/utils/types'

import { toAIMessage, usageOf, toChunk, toLastChunk } from './answer-messages.ts'
import { toChatMessages } from './chat-messages.ts'
import { conversationRecord, recordOf } from './sample-record.ts'
import { logErrorsOf, toolFields, toWireTool } from './tool-fields.ts'

definePolicyFaults({
  GraphRecursionError: { limit: 'recursion_limit' },
  ModelCallLimitMiddlewareError: { limit: 'model_calls' },
  ToolCallLimitExceededError: { limit: 'tool_calls' },
  OutputParserException: { error: 'output' },
  StructuredOutputParsingError: { error: 'output' },
  MultipleStructuredOutputsError: { error: 'output' },
  ToolInputParsingException: { error: 'tool_call' },
  ToolInvocationError: { error: 'tool_call' },
})

/** Settings of an {@link OsmosisChatModel}, in the names of LangChain's models. */
export interface OsmosisChatModelFields extends Pick<
  BaseChatModelParams,
  'callbacks' | 'disableStreaming' | 'metadata' | 'outputVersion' | 'tags' | 'verbose'
> {
  /** The sample id of the model's calls; default: a random one for each model object. */
  name?: string | undefined
  /** What the model's calls are for, such as `title`. Default: `agent`. */
  purpose?: string | undefined
  /** Whether its answers are training data. Default: true. */
  trainable?: boolean | undefined
  temperature?: number | undefined
  topP?: number | undefined
  /** Sent as `top_k`. */
  topK?: number | undefined
  frequencyPenalty?: number | undefined
  presencePenalty?: number | undefined
  /** The longest answer. Tokens. */
  maxTokens?: number | undefined
  seed?: number | undefined
  stopSequences?: string[] | undefined
  logprobs?: boolean | undefined
  topLogprobs?: number | undefined
  /** More fields of the request body, sent as they are: `min_p`, `chat_template_kwargs`, … */
  modelKwargs?: Readonly<Record<string, unknown>> | undefined
  /** The model outside of rollouts, with settings of its own, so that one program serves both. */
  fallback?: BaseChatModel | undefined
}

/** Options of one call. */
export interface OsmosisChatModelCallOptions extends BaseChatModelCallOptions {
  /** As `bindTools` takes them. */
  tools?: BindToolsInput[]
  /** Whether the policy has to follow the schemas of tools exactly. */
  strict?: boolean
  parallel_tool_calls?: boolean
  /** As in chat completions. */
  response_format?: Readonly<Record<string, unknown>>
  seed?: number
}

/**
 * The policy, whichever that is at the time, as a chat model of LangChain. Pass it wherever a model is expected:
 * `createAgent`, nodes of a graph, `bindTools`, `withStructuredOutput`. The rollout is found when the model is
 * called, so one object, and a graph around it, may serve many rollouts concurrently.
 *
 * Errors of the policy are thrown as `OsmosisError` and not retried: the policy client has retried already.
 * Outside of rollouts, calls of a model without a `fallback` fail with code `no_rollout_context`.
 */
export class OsmosisChatModel extends BaseChatModel<OsmosisChatModelCallOptions> {
  /** The sample id of its calls. Models of one name are one sample. */
  readonly sampleId: string
  readonly #fields: OsmosisChatModelFields
  // Code that has lost its async context, such as a callback of a native addon, finds it here.
  readonly #origin = getRolloutContext()

  /**
   * @param fields - a name alone, or settings
   * @throws OsmosisError with code `duplicate_sample` when something else has the name in the active rollout,
   * `invalid_id`, or `invalid_config` when answers are to be cached
   */
  constructor(fields: string | OsmosisChatModelFields = {}) {
    const settings = typeof fields === 'string' ? { name: fields } : fields
    const { name, purpose: _purpose, trainable, fallback: _fallback, ...params } = settings
    assertNotCached(params)
    super(params)
    this.#fields = settings
    this.sampleId = name ?? randomUUID()
    if (name === undefined) return
    this.name = name
    // An agent that is never run can be named in errors then.
    if (this.#origin && trainable !== false) recordOf(this.#origin, name)
  }

  static override lc_name(): string {
    return 'OsmosisChatModel'
  }

  override _llmType(): string {
    return 'osmosis'
  }

  override getLsParams(options: this['ParsedCallOptions']): LangSmithParams {
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

  /** @throws OsmosisError with code `invalid_request` for a tool that a provider executes */
  override bindTools(
    tools: BindToolsInput[],
    kwargs: Partial<OsmosisChatModelCallOptions> = {},
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, OsmosisChatModelCallOptions> {
    for (const tool of tools) logErrorsOf(tool)
    return this.withConfig({ tools: tools.map(toWireTool), ...kwargs })
  }

  override async _generate(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
  ): Promise<ChatResult> {
    const substitute = this.#substitute(options)
    if (substitute) {
      const message = await substitute.invoke(messages)
      return { generations: [{ text: textOf(message), message }] }
    }
    const { record, policy } = this.#sample()
    const call = record.begin(messages, options.signal)
    try {
      const request = { ...this.invocationParams(options), messages: toChatMessages(messages) }
      const completion = await policy.complete(request, this.#callOptions(options))
      const message = toAIMessage(completion)
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
    } catch (error) {
      record.fail(call, error)
      throw error
    } finally {
      record.end(call)
    }
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const substitute = this.#substitute(options)
    if (substitute) {
      for await (const message of await substitute.stream(messages)) {
        yield* emit(message, runManager)
      }
      return
    }
    const { record, policy } = this.#sample()
    const call = record.begin(messages, options.signal)
    try {
      const request = { ...this.invocationParams(options), messages: toChatMessages(messages) }
      const answer = policy.stream(request, this.#callOptions(options))
      for await (const chunk of answer) {
        const message = toChunk(chunk)
        if (message) yield* emit(message, runManager)
      }
      const completion = await answer.completion
      record.succeed(call, toAIMessage(completion))
      yield* emit(toLastChunk(completion), runManager)
    } catch (error) {
      record.fail(call, error)
      throw error
    } finally {
      record.end(call)
    }
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
    const { options, parser } = structuredOutput(schema, config)
    const model = this.withConfig(options)
    const ours = assembleStructuredOutputPipeline(model, parser, config.includeRaw)
    const theirs = this.#fields.fallback?.withStructuredOutput(schema, config as never)
    if (theirs === undefined) return ours
    return RunnableLambda.from(() => (this.#rollout === undefined ? theirs : ours))
    // Its overloads differ between versions.
  }) as BaseChatModel['withStructuredOutput']

  get #rollout(): RolloutContext | undefined {
    return getRolloutContext() ?? this.#origin
  }

  /** The model that answers here instead of the policy, with the tools of the call. */
  #substitute(
    options: this['ParsedCallOptions'],
  ): Runnable<BaseLanguageModelInput, AIMessageChunk> | undefined {
    const { fallback } = this.#fields
    if (fallback === undefined || this.#rollout !== undefined) return undefined
    const { tools = [], tool_choice, strict, parallel_tool_calls, ...others } = options
    const ofTools = definedFields({ tool_choice, strict, parallel_tool_calls })
    const model = tools.length > 0 ? fallback.bindTools?.(tools, ofTools) : fallback
    // The tag keeps LangGraph from streaming its messages beside those of this model.
    return model?.withConfig({ ...others, tags: ['nostream'] } as object)
  }

  /** The sample that a call made now belongs to. */
  #sample(): { record: NativeSample<BaseMessage>; policy: PolicyClient } {
    const rollout = this.#rollout
    if (rollout === undefined) {
      throw new OsmosisError(
        'no_rollout_context',
        'OsmosisChatModel needs an active rollout: call the model, or the agent or graph that has it, inside AgentWorkflow.run(), or give it another model for outside: new OsmosisChatModel({ fallback: … }).',
      )
    }
    const isTrained = this.#fields.trainable !== false
    // A conversation that is not training data must not become that of the sample.
    const record = isTrained ? recordOf(rollout, this.sampleId) : conversationRecord()
    return { record, policy: rollout.policy(this.sampleId) }
  }

  #callOptions({ signal }: this['ParsedCallOptions']): PolicyCallOptions {
    const { purpose, trainable } = this.#fields
    return { signal, purpose, trainable, headers: { 'user-agent': 'langchain' } }
  }
}

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

function definedFields(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
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

/** A schema of Zod or of another library, or a JSON schema. */
type OutputSchema = InteropZodType<Record<string, unknown>> | Record<string, unknown>

/** How a structured output is requested, and what reads it. */
interface StructuredOutput {
  /** Options of the call. */
  readonly options: Readonly<Record<string, unknown>>
  readonly parser: Runnable<never, Record<string, unknown>>
}

/** @throws OsmosisError with code `invalid_request` for an unknown method */
function structuredOutput(
  schema: OutputSchema,
  { method = 'jsonSchema', name: givenName, strict }: StructuredOutputMethodOptions<boolean>,
): StructuredOutput {
  const parameters = toJsonSchema(schema as Parameters<typeof toJsonSchema>[0])
  const { title, description } = parameters as { title?: unknown; description?: unknown }
  const name = givenName ?? (typeof title === 'string' ? title : 'extract')
  switch (method) {
    case 'jsonSchema': {
      const json_schema = { name, description, schema: parameters, strict }
      return {
        options: { response_format: { type: 'json_schema', json_schema } },
        parser: createContentParser(schema),
      }
    }
    case 'jsonMode':
      return {
        options: { response_format: { type: 'json_object' } },
        parser: createContentParser(schema),
      }
    case 'functionCalling': {
      const called = { name, description, parameters }
      return {
        options: { tools: [{ type: 'function', function: called }], tool_choice: name, strict },
        parser: createFunctionCallingParser(schema, name),
      }
    }
    default:
      throw new OsmosisError(
        'invalid_request',
        `The method of withStructuredOutput must be jsonSchema, jsonMode or functionCalling, got ${JSON.stringify(method)}.`,
      )
  }
}
