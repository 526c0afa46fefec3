// The agent that learns: it has to say the code of a door, and has one tool, which reads the note
// with the code. Nothing tells the policy to use the tool, or to say what it reads there. Only the reward does.
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
  function: {
    name: 'read_note',
    description: 'Reads the note that the code is written on.',
    parameters: { type: 'object', properties: {} },
  },
}

export class OpenDoor extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<ChatMessage[]> {
    const policy = requireRolloutContext('OpenDoor').policy('sample')
    const note = String(ctx.metadata?.['note'])
    const messages: ChatMessage[] = [...ctx.prompt]
    for (let turn = 0; turn < 4; turn += 1) {
      const request = { messages, tools: [readNote] }
      const { choices } = await policy.complete(request, { signal: ctx.signal })
      const message = choices[0]?.message
      if (message === undefined) break
      messages.push(message)
      if (message.tool_calls === undefined) break
      for (const { id } of message.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: id, content: note })
      }
    }
    return messages
  }
}

/** The share of letters that are right. */
export class RightLetters extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const code = ctx.requireLabel()
    const said = lastAssistantText(ctx.sample)
    const right = Array.from(code).filter((letter, at) => letter === said[at])
    ctx.setReward(right.length / code.length)
  }
}
