import { randomUUID } from 'node:crypto'

import {
  type Agent,
  type AgentConfig,
  ContextWindowOverflowError,
  NullConversationManager,
} from '@strands-agents/sdk'
import {
  errorCategory,
  requireRolloutContext,
  type RolloutContext,
  type RolloutSample,
  toRolloutSample,
} from '@osmosis/core'
import { traceOf } from '@osmosis/core/tracing'

import { ConversationRecorder } from './conversation-recorder.ts'
import { toNativeMessages } from './native-messages.ts'
import { RecorderPlugin } from './recorder-plugin.ts'
import type { OsmosisRolloutModel } from './rollout-model.ts'
import { ToolSpanPlugin } from './tool-span-plugin.ts'
import { type TurnMemory, turnMemoryOf } from './turn-memory.ts'

/** What ties an agent to the rollout it is made in. */
export class RolloutBinding {
  readonly sampleId: string
  /** Undefined for a model that a subclass of the placeholder made by itself. */
  readonly memory: TurnMemory | undefined
  /** The system messages that the prompt began with: the agent has them in its system prompt. */
  system: string | undefined
  readonly #context: RolloutContext
  readonly #model: ReturnType<OsmosisRolloutModel['forSample']>
  readonly #recorder = new ConversationRecorder()
  #streamError: Error | undefined

  /** @throws OsmosisError with code `no_rollout_context` or `invalid_id` */
  constructor(placeholder: OsmosisRolloutModel, { name, id }: Pick<AgentConfig, 'name' | 'id'>) {
    this.#context = requireRolloutContext('An OsmosisStrandsAgent with an OsmosisRolloutModel')
    // Of the config and not of the agent, which has a default name.
    this.sampleId = name || id || randomUUID().replaceAll('-', '')
    this.#model = placeholder.forSample(this.sampleId, this.#context)
    this.memory = turnMemoryOf(this.#model)
  }

  /** The config of the agent, quiet and with its whole history unless the user says otherwise. */
  applyTo(config: AgentConfig): AgentConfig {
    const managesHistory =
      config.conversationManager !== undefined || config.contextManager !== undefined
    const trace = traceOf(this.#context)
    return {
      ...config,
      model: this.#model,
      printer: config.printer ?? false,
      // What is worth asking again has been asked again before Strands hears of it.
      retryStrategy: config.retryStrategy === undefined ? null : config.retryStrategy,
      ...(managesHistory ? {} : { conversationManager: new NullConversationManager() }),
      plugins: [
        ...(config.plugins ?? []),
        new RecorderPlugin(this.#recorder, this.memory),
        ...(trace === undefined ? [] : [new ToolSpanPlugin(trace, this.sampleId)]),
      ],
    }
  }

  /**
   * Makes the agent a sample of its rollout.
   *
   * @throws OsmosisError with code `duplicate_sample`
   */
  register(agent: Agent): void {
    this.#context.registerSampleSource(this.sampleId, {
      requiresModelCall: true,
      getSample: (id) => this.#sample(id, agent),
      unnoticedError: () => this.#streamError,
    })
  }

  /**
   * Notes how a stream of the agent ended. Agents used as tools and nodes of a graph are run by
   * Strands, which makes a text of an error: a policy that failed must not look like a bad answer.
   */
  noteStreamEnd(error?: unknown): void {
    const isPolicyError =
      errorCategory(error) === 'http_error' && !(error instanceof ContextWindowOverflowError)
    this.#streamError = isPolicyError && error instanceof Error ? error : undefined
  }

  #sample(id: string, agent: Agent): RolloutSample {
    const [latest = [], ...others] = this.#recorder
      .conversations(agent.messages)
      .map((messages) => toNativeMessages(messages, this.system, this.memory))
      .toReversed()
    const extraFields = others.length > 0 ? { conversations: others.toReversed() } : {}
    return toRolloutSample({ id, messages: latest, extraFields })
  }
}
