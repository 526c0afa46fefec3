// Its policy has to read a note, and say what is written there.
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

const readNote = {
  type: 'function',
  function: { name: 'read_note', parameters: { type: 'object', properties: {} } },
}

export class OpenDoor extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<ChatMessage[]> {
    const policy = requireRolloutContext('OpenDoor').policy('sample')
    const messages: ChatMessage[] = [...ctx.prompt]
    for (let turn = 0; turn < 4; turn += 1) {
      const { choices } = await policy.complete({ messages, tools: [readNote] })
      const message = choices[0]?.message
      if (message === undefined) break
      messages.push(message)
      if (message.tool_calls === undefined) break
      for (const { id } of message.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: id, content: String(ctx.metadata?.['note']) })
      }
    }
    return messages
  }
}

export class RightLetters extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const code = ctx.requireLabel()
    const said = lastAssistantText(ctx.sample)
    const right = Array.from(code).filter((letter, at) => letter === said[at])
    ctx.setReward(right.length / code.length)
  }
}
