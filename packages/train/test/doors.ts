import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { DatasetRow } from '@osmosis/eval'
import { createRolloutServer, LocalBackend, serve } from '@osmosis/server'
import { servedRollouts, type OpenRollouts } from '@osmosis/train'

const readNote = {
  type: 'function',
  function: {
    name: 'read_note',
    description: 'Reads the note that the code is written on.',
    parameters: { type: 'object', properties: {} },
  },
}

/** Each letter is equally often in each place, so that guesses are right in a quarter of the letters. */
const codes = Array.from('abcd').flatMap((first) => Array.from('abcd', (second) => first + second))

/** One row for each code; the number of a door is all that its question says. */
export const doors: readonly DatasetRow[] = codes.map((code, at) => ({
  sourceRowIndex: at,
  initialMessages: [{ role: 'user', content: `What is the code of door ${at}?` }],
  label: code,
  metadata: { code },
  otherColumns: {},
}))

class OpenDoor extends AgentWorkflow {
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
        messages.push({ role: 'tool', tool_call_id: id, content: String(ctx.metadata?.['code']) })
      }
    }
    return messages
  }
}

/** The share of letters that are right. */
class RightLetters extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const code = ctx.requireLabel()
    const said = lastAssistantText(ctx.sample)
    const right = Array.from(code).filter((letter, at) => letter === said[at])
    ctx.setReward(right.length / code.length)
  }
}

/** Rollouts of the agent that looks for the codes of doors, on a rollout server of this process. */
export async function doorRollouts(): Promise<{
  readonly rollouts: OpenRollouts
  readonly close: () => Promise<void>
}> {
  const backend = new LocalBackend({ workflow: OpenDoor, grader: RightLetters, maxConcurrent: 512 })
  const app = createRolloutServer({ backend, trajectories: false, logger: false })
  const server = await serve(app, { port: 0 })
  return {
    rollouts: servedRollouts({ server: { url: server.url } }),
    close: () => server.close(),
  }
}
