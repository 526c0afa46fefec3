import {
  getRolloutContext,
  isOsmosisError,
  OsmosisError,
  type PolicyCallOptions,
  type PolicyClient,
  type RolloutContext,
} from '@osmosis/core'
import {
  type ChatCompletion,
  type ChatCompletionRequest,
  isFullContext,
  policyModelName,
} from '@osmosis/core/policy'
import { converting, wrongRollout } from '@osmosis/core/workflow'
import {
  type BaseModelConfig,
  ContextWindowOverflowError,
  type Message,
  Model,
  type ModelStreamEvent,
  ModelThrottledError,
  type StreamOptions,
  type ToolChoice,
} from '@strands-agents/sdk'

import { AnswerEvents } from './answer-events.ts'
import type { RequestSettings } from './sampling-params.ts'
import { TurnMemory, turnMemoryKey } from './turn-memory.ts'
import { toWireMessages } from './wire-messages.ts'

/** What the calls of a model are for. */
export type StrandsCallUse = Pick<PolicyCallOptions, 'purpose' | 'trainable'>

interface StrandsModelSettings extends RequestSettings, StrandsCallUse {
  readonly onLength: 'throw' | 'stop'
}

/** The policy of a rollout as a model of Strands, for one sample. */
export class StrandsPolicyModel extends Model {
  readonly [turnMemoryKey] = new TurnMemory()
  readonly #context: RolloutContext
  readonly #policy: PolicyClient
  readonly #sampleId: string
  readonly #settings: StrandsModelSettings
  #config: BaseModelConfig = {}

  constructor(context: RolloutContext, sampleId: string, settings: StrandsModelSettings) {
    super()
    this.#context = context
    this.#policy = context.policy(sampleId)
    this.#sampleId = sampleId
    this.#settings = settings
  }

  override updateConfig(config: BaseModelConfig): void {
    this.#config = { ...this.#config, ...config }
  }

  override getConfig(): BaseModelConfig {
    const { temperature, top_p, max_tokens, max_completion_tokens } = this.#settings.body
    return withoutUndefined({
      temperature: numberOrUndefined(temperature),
      topP: numberOrUndefined(top_p),
      maxTokens: numberOrUndefined(max_completion_tokens ?? max_tokens),
      ...this.#config,
      modelId: policyModelName,
    })
  }

  override async *stream(
    messages: Message[],
    options: StreamOptions = {},
  ): AsyncGenerator<ModelStreamEvent> {
    this.#assertOwnRollout()
    const { purpose, trainable, headers, onLength } = this.#settings
    const events = new AnswerEvents(this[turnMemoryKey], onLength)
    let completion: ChatCompletion
    try {
      const request = await converting(this.#context, { sampleId: this.#sampleId, trainable }, () =>
        this.#request(messages, options),
      )
      const answer = this.#policy.stream(request, {
        signal: options.cancelSignal,
        purpose,
        trainable,
        headers: { 'user-agent': 'strands-agents', ...headers },
      })
      for await (const chunk of answer) yield* events.add(chunk)
      completion = await answer.completion
    } catch (error) {
      throw toModelError(error)
    }
    yield* events.end(completion)
  }

  #request(messages: readonly Message[], options: StreamOptions): ChatCompletionRequest {
    if (messages.length === 0) {
      throw new OsmosisError(
        'invalid_request',
        'The conversation of the agent is empty: pass `messages: ctx.prompt` to the agent, or an input to invoke().',
      )
    }
    const { temperature, topP, maxTokens } = this.#config
    const tokenLimit =
      'max_completion_tokens' in this.#settings.body ? 'max_completion_tokens' : 'max_tokens'
    return {
      ...this.#settings.body,
      ...withoutUndefined({ temperature, top_p: topP, [tokenLimit]: maxTokens }),
      ...toWireTools(options),
      messages: toWireMessages(messages, options.systemPrompt, this[turnMemoryKey]),
    }
  }

  #assertOwnRollout(): void {
    const ambient = getRolloutContext()
    if (ambient === undefined || ambient === this.#context) return
    throw wrongRollout('An OsmosisStrandsAgent', this.#context, ambient)
  }
}

function numberOrUndefined(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

function withoutUndefined<T extends object>(
  value: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const set = Object.entries(value).filter(([, field]) => field !== undefined)
  return Object.fromEntries(set) as { [K in keyof T]?: Exclude<T[K], undefined> }
}

/**
 * What the policy refused, as the errors that Strands, its retry strategies and its conversation
 * managers know. Other errors stay as they are: Strands wraps them in a `ModelError`.
 */
function toModelError(error: unknown): unknown {
  if (!isOsmosisError(error) || error.code !== 'policy_http_error') return error
  const { status, message } = error
  if (status === 429) return new ModelThrottledError(message, { cause: error })
  if (isFullContext(error)) {
    // Its constructor takes no cause; the category of a failed rollout is found by it.
    return Object.assign(new ContextWindowOverflowError(message), { cause: error })
  }
  return error
}

/** The tools of a model call as the fields of a chat completions request. */
function toWireTools({ toolSpecs = [], toolChoice }: StreamOptions): Record<string, unknown> {
  if (toolSpecs.length === 0) return {}
  const tools = toolSpecs.map(({ name, description, inputSchema }) => ({
    type: 'function',
    function: {
      name,
      ...(description ? { description } : {}),
      parameters: inputSchema ?? { type: 'object', properties: {} },
    },
  }))
  return toolChoice ? { tools, tool_choice: toWireToolChoice(toolChoice) } : { tools }
}

function toWireToolChoice(choice: ToolChoice): unknown {
  if ('auto' in choice) return 'auto'
  if ('any' in choice) return 'required'
  return { type: 'function', function: { name: choice.tool.name } }
}
