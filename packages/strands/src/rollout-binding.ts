import { randomUUID } from 'node:crypto'

import {
  requireRolloutContext,
  type RolloutContext,
  type RolloutSample,
  toRolloutSample,
} from '@osmosis/core'
import { traceOf, type RolloutTrace, type ToolTrace } from '@osmosis/core/tracing'
import { recordOf } from '@osmosis/core/workflow'
import {
  type Agent,
  type AgentConfig,
  NullConversationManager,
  AfterInvocationEvent,
  AfterModelCallEvent,
  BeforeInvocationEvent,
  BeforeToolCallEvent,
  type LocalAgent,
  MaxTokensError,
  Message,
  MessageAddedEvent,
  type Plugin,
  TextBlock,
  AfterToolCallEvent,
} from '@strands-agents/sdk'

import { incompleteCallNote } from './answer-events.ts'
import { ConversationRecorder } from './conversation-recorder.ts'
import { noteError } from './policy-faults.ts'
import type { OsmosisRolloutModel } from './rollout-model.ts'
import { type TurnMemory, turnMemoryOf } from './turn-memory.ts'

/**
 * Records an agent by the public hooks of Strands, and tells the policy about arguments that no
 * tool can be called with.
 */
class RecorderPlugin implements Plugin {
  readonly name = 'osmosis:recorder'
  readonly #context: RolloutContext
  readonly #recorder: ConversationRecorder
  readonly #memory: TurnMemory | undefined

  constructor(
    context: RolloutContext,
    recorder: ConversationRecorder,
    memory: TurnMemory | undefined,
  ) {
    this.#context = context
    this.#recorder = recorder
    this.#memory = memory
  }

  initAgent(agent: LocalAgent): void {
    const recorder = this.#recorder
    let cutOff: Message | undefined
    agent.addHook(BeforeInvocationEvent, () => {
      cutOff = undefined
      recorder.leavePending()
      recorder.follow(agent.messages)
    })
    agent.addHook(AfterModelCallEvent, ({ stopData, error }) => {
      cutOff = error instanceof MaxTokensError ? error.partialMessage : undefined
      recorder.notePending(stopData?.message)
    })
    agent.addHook(MessageAddedEvent, () => recorder.follow(agent.messages))
    agent.addHook(AfterInvocationEvent, () => {
      // The policy wrote the turn that hit the token limit as well; Strands leaves it out.
      if (cutOff && agent.messages.at(-1)?.role !== 'assistant') {
        agent.messages.push(withoutOpenCalls(cutOff))
      }
      cutOff = undefined
      recorder.follow(agent.messages)
    })
    agent.addHook(BeforeToolCallEvent, (event) => {
      const problem = this.#memory?.problemOf(event.toolUse.toolUseId)
      if (problem) event.cancel = `Error: ${problem}`
    })
    agent.addHook(AfterToolCallEvent, ({ toolUse, error }) => {
      if (error !== undefined) this.#context.logToolError(toolUse.name, error)
    })
  }
}

/** A turn that can be continued. */
function withoutOpenCalls(message: Message): Message {
  const content = message.content.map((block) =>
    block.type === 'toolUseBlock' ? new TextBlock(incompleteCallNote(block.name)) : block,
  )
  const { role, metadata } = message
  return new Message({ role, content, ...(metadata ? { metadata } : {}) })
}

/** Makes spans of the tools that an agent runs, by the public hooks of Strands. */
class ToolSpanPlugin implements Plugin {
  readonly name = 'osmosis:tool-spans'
  readonly #trace: RolloutTrace
  readonly #sampleId: string
  /** Those that run, the latest one last. Ids are the policy's, and need not differ. */
  readonly #open: { readonly id: string; readonly tool: ToolTrace }[] = []

  constructor(trace: RolloutTrace, sampleId: string) {
    this.#trace = trace
    this.#sampleId = sampleId
  }

  initAgent(agent: LocalAgent): void {
    agent.addHook(BeforeToolCallEvent, ({ toolUse: { name, toolUseId: id }, cancel }) => {
      const tool = cancel ? undefined : this.#trace.tool(this.#sampleId, { name, id })
      if (tool !== undefined) this.#open.push({ id, tool })
    })
    agent.addHook(AfterToolCallEvent, ({ toolUse: { toolUseId }, result, error }) => {
      const index = this.#open.findLastIndex(({ id }) => id === toolUseId)
      const [ended] = index < 0 ? [] : this.#open.splice(index, 1)
      if (result.status === 'error') ended?.tool.fail(error)
      else ended?.tool.end()
    })
  }
}

/** What ties an agent to the rollout it is made in. */
export class RolloutBinding {
  readonly sampleId: string
  /** Undefined for a model that a subclass of the placeholder made by itself. */
  readonly memory: TurnMemory | undefined
  /** The system messages at the start of the prompt: the agent has them in its system prompt. */
  system: string | undefined
  readonly #context: RolloutContext
  readonly #model: ReturnType<OsmosisRolloutModel['forSample']>
  readonly #recorder = new ConversationRecorder()

  /** @throws OsmosisError with code `no_rollout_context` or `invalid_id` */
  constructor(placeholder: OsmosisRolloutModel, { name, id }: Pick<AgentConfig, 'name' | 'id'>) {
    this.#context = requireRolloutContext(
      'An OsmosisStrandsAgent with an OsmosisRolloutModel without a fallback',
    )
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
        new RecorderPlugin(this.#context, this.#recorder, this.memory),
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
    })
  }

  /** Notes the error of a run of the agent. It may be a fault of the policy if that has answered. */
  noteRunError(error: unknown): void {
    if (recordOf(this.#context).log(this.sampleId).hasOutcome) noteError(error, this.#context)
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

/**
 * A conversation in the JSON form of Strands: `{ role, content: [{ text } | { toolUse } |
 * { toolResult } | { reasoning } | …] }`. System messages of the prompt, which Strands keeps
 * elsewhere or as a user's, are among them with their own role.
 */
function toNativeMessages(
  messages: readonly Message[],
  system: string | undefined,
  memory: TurnMemory | undefined,
): unknown[] {
  const native = messages.map((message) => {
    const { role, content } = message.toJSON()
    const [given] = memory?.promptOf(message) ?? []
    return {
      role: given?.role === 'developer' || given?.role === 'system' ? given.role : role,
      content,
    }
  })
  return system === undefined
    ? native
    : [{ role: 'system', content: [{ text: system }] }, ...native]
}
