import {
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
} from '@strands-agents/sdk'

import type { ConversationRecorder } from './conversation-recorder.ts'
import { incompleteCallNote } from './answer-events.ts'
import type { TurnMemory } from './turn-memory.ts'

/**
 * Records an agent by the public hooks of Strands, and tells the policy about arguments that no
 * tool can be called with.
 */
export class RecorderPlugin implements Plugin {
  readonly name = 'osmosis:recorder'
  readonly #recorder: ConversationRecorder
  readonly #memory: TurnMemory | undefined

  constructor(recorder: ConversationRecorder, memory: TurnMemory | undefined) {
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
