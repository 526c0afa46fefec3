// The agent that learns: it has to say the code of a door, and has one tool, which reads the note
// with the code. Nothing tells the policy to use the tool, or to say what it reads there. Only the reward does.
import {
  AgentWorkflow,
  defineWorkflowConfig,
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

/** A policy that only ever reads the note is graded for what it said so far. */
export const config = defineWorkflowConfig({
  name: 'doors',
  concurrency: { maxConcurrent: 64 },
  rolloutLimits: { modelCalls: 4 },
})

export class OpenDoor extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<ChatMessage[]> {
    const policy = requireRolloutContext('OpenDoor').policy('sample')
    const note = String(ctx.metadata?.['note'])
    const messages: ChatMessage[] = [...ctx.prompt]
    for (;;) {
      const request = { messages, tools: [readNote] }
      const { choices } = await policy.complete(request, { signal: ctx.signal })
      const message = choices[0]?.message
      if (message === undefined) return messages
      messages.push(message)
      if (message.tool_calls === undefined) return messages
      for (const { id } of message.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: id, content: note })
      }
    }
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
