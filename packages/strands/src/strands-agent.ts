import { getRolloutContext, OsmosisError } from '@osmosis/core'
import {
  Agent,
  type AgentConfig,
  type AgentResult,
  type AgentStreamEvent,
  type InvokeArgs,
  type InvokeOptions,
  type SystemPrompt,
  type SystemPromptData,
  TextBlock,
} from '@strands-agents/sdk'

import { fromPrompt, isChatMessage, type PromptMessages } from './prompt-messages.ts'
import { RolloutBinding } from './rollout-binding.ts'
import { isRolloutModel } from './rollout-model.ts'

/** The config of an `Agent`, whose `messages` may also be those of a prompt. */
export type OsmosisStrandsAgentConfig = Omit<AgentConfig, 'messages'> & {
  /** `ctx.prompt` as it is, messages of Strands, or both. */
  messages?: PromptMessages
}

/** What an agent can be invoked with: the input of an `Agent`, or a prompt as it is. */
export type OsmosisInvokeArgs = InvokeArgs | PromptMessages

/**
 * An `Agent` whose `OsmosisRolloutModel` is the policy of the rollout it is made in, and which is a
 * sample of that rollout under its `name`, else its `id`, else a random one. Make it inside
 * `AgentWorkflow.run()`. There it prints nothing and keeps its whole history, unless the config
 * says otherwise. Made outside of rollouts, it is a plain agent of the model's `fallback` and works outside only. With any other
 * model it is a plain agent, inside a rollout and out.
 */
export class OsmosisStrandsAgent extends Agent {
  /** The sample id; undefined for an agent with a model of its own. */
  readonly sampleId: string | undefined
  readonly #rollout: RolloutBinding | undefined
  readonly #isOutside: boolean

  /**
   * @throws OsmosisError with code `no_rollout_context`, `invalid_id` or `duplicate_sample` when
   * the model is an `OsmosisRolloutModel`, and with code `invalid_request` for messages that
   * Strands has no form for
   */
  constructor(config: OsmosisStrandsAgentConfig = {}) {
    const { messages: given = [], ...rest } = config
    const placeholder = isRolloutModel(config.model) ? config.model : undefined
    const outside = getRolloutContext() === undefined ? placeholder?.fallback : undefined
    const rollout =
      placeholder && outside === undefined ? new RolloutBinding(placeholder, config) : undefined
    const { messages, system } = fromPrompt(given, rollout?.memory)
    const converted: AgentConfig = { ...rest, messages, ...(outside ? { model: outside } : {}) }
    if (system !== undefined) converted.systemPrompt = mergedSystemPrompt(rest.systemPrompt, system)
    super(rollout ? rollout.applyTo(converted) : converted)
    this.sampleId = rollout?.sampleId
    this.#rollout = rollout
    this.#isOutside = outside !== undefined
    if (rollout === undefined) return
    rollout.system = system
    rollout.register(this)
  }

  /** As `Agent.invoke`; without input the agent continues from its messages. */
  override async invoke(args?: OsmosisInvokeArgs, options?: InvokeOptions): Promise<AgentResult> {
    return super.invoke(args as InvokeArgs, options)
  }

  /** As `Agent.stream`; leaving it early ends the model call that is in progress. */
  override async *stream(
    args?: OsmosisInvokeArgs,
    options?: InvokeOptions,
  ): AsyncGenerator<AgentStreamEvent, AgentResult, undefined> {
    const rollout = this.#rollout
    if (this.#isOutside && getRolloutContext() !== undefined) {
      throw new OsmosisError(
        'wrong_rollout_context',
        'An OsmosisStrandsAgent was made outside of rollouts and run inside one, where its fallback must not answer. Construct the agent inside AgentWorkflow.run().',
      )
    }
    const input = this.#toInput(args)
    if (rollout === undefined) return yield* super.stream(input, options)
    // Strands does not close the stream of a model when its own is left.
    const left = new AbortController()
    const cancelSignal = options?.cancelSignal
      ? AbortSignal.any([options.cancelSignal, left.signal])
      : left.signal
    let ended = false
    try {
      const result = yield* super.stream(input, { ...options, cancelSignal })
      ended = true
      return result
    } catch (error) {
      ended = true
      rollout.noteRunError(error)
      throw error
    } finally {
      // Tools may have kept the signal for work that continues behind the run.
      if (!ended) left.abort()
    }
  }

  #toInput(args: OsmosisInvokeArgs | undefined): InvokeArgs {
    if (!Array.isArray(args) || !args.some(isChatMessage)) return args as InvokeArgs
    const { messages, system } = fromPrompt(args as PromptMessages, this.#rollout?.memory)
    // A second run concurrently is refused by Strands and must not leave a trace.
    if (system !== undefined && !this.isInvoking) {
      this.systemPrompt = mergedSystemPrompt(this.systemPrompt, system)
      if (this.#rollout) this.#rollout.system = mergedSystemPrompt(this.#rollout.system, system)
    }
    return messages
  }
}

/**
 * The agent's own system prompt followed by that of the row, as one: many chat templates allow a
 * single system message, at the beginning. What is already at its end is not added again.
 */
function mergedSystemPrompt<T extends SystemPrompt | SystemPromptData>(
  own: T | undefined,
  ofRow: string,
): T | string {
  if (own === undefined || own.length === 0) return ofRow
  const addition = `\n\n${ofRow}`
  if (typeof own === 'string') {
    return own === ofRow || own.endsWith(addition) ? own : `${own}${addition}`
  }
  const blocks: readonly object[] = own
  const last = blocks.at(-1)
  if (last !== undefined && 'text' in last && last.text === addition) return own
  return [...blocks, new TextBlock(addition)] as T
}
