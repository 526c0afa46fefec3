import type {
  BaseChatModel,
  BaseChatModelCallOptions,
  BaseChatModelParams,
  BindToolsInput,
} from '@langchain/core/language_models/chat_models'
import type { ModelProfile } from '@langchain/core/language_models/profile'
import type { FallbackModel } from '@osmosis/core/workflow'

/** Settings of an `OsmosisChatModel`, in the names of LangChain's models. */
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
  /** What LangChain is told of the policy: `structuredOutput`, `maxInputTokens`, … Default: nothing. */
  profile?: ModelProfile | undefined
  /**
   * The model outside of rollouts, with settings of its own, so that one program serves both. A function that makes it
   * is called when it is first needed.
   */
  fallback?: FallbackModel<BaseChatModel> | undefined
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
