import { AgentWorkflow, requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import * as aiSdk from '../../examples/rollouts/multiply-ai-sdk/main.ts'
import * as googleAdk from '../../examples/rollouts/multiply-google-adk/main.ts'
import * as langchain from '../../examples/rollouts/multiply-langgraph/main.ts'
import * as mastra from '../../examples/rollouts/multiply-mastra/main.ts'
import * as openaiAgents from '../../examples/rollouts/multiply-openai-agents/main.ts'
import * as pi from '../../examples/rollouts/multiply-pi/main.ts'
import * as strands from '../../examples/rollouts/multiply-strands/main.ts'
import { tokenAnswer } from '../kit/index.ts'
import type { FakeModel } from '../kit/trainers/index.ts'

/** What the agents of the examples do, written by hand. */
class MultiplyByHand extends AgentWorkflow {
  async run({ prompt, signal }: AgentWorkflowContext): Promise<unknown> {
    const policy = requireRolloutContext('MultiplyByHand').policy('sample')
    const messages = prompt as ChatMessage[]
    for (;;) {
      const { choices } = await policy.complete({ messages }, { signal })
      const message = choices[0]?.message
      if (message === undefined) return messages
      messages.push(message)
      if (!message.tool_calls) return messages
      for (const { id, function: called } of message.tool_calls) {
        const { a, b } = JSON.parse(called.arguments) as { a: number; b: number }
        messages.push({ role: 'tool', tool_call_id: id, content: String(a * b) })
      }
    }
  }
}

const { MultiplyGrader } = aiSdk

/** Multiplies twice. Then it throws in the first attempt, is right in the second, and wrong in the third. */
export const multiplyModel: FakeModel = (body, rolloutId) => {
  const results = body.messages.filter(({ role }) => role === 'tool').length
  if (results < 2) {
    const called = { name: 'multiply', arguments: '{"a":12,"b":3}' }
    const toolCalls = [{ id: `call-${results}`, type: 'function' as const, function: called }]
    return tokenAnswer(body, { content: null, tool_calls: toolCalls })
  }
  if (/-1(-again)?$/.test(rolloutId)) throw new Error('out of memory')
  return tokenAnswer(body, { content: rolloutId.endsWith('-2') ? '#### 36' : '#### 35' })
}

type MultiplyAgent = readonly [name: string, exports: Readonly<Record<string, unknown>>]

/** The entrypoints of equivalent agents, by framework. */
export const multiplyAgents: readonly [MultiplyAgent, ...MultiplyAgent[]] = [
  ['OpenAI Agents', openaiAgents],
  ['Strands', strands],
  ['the AI SDK', aiSdk],
  ['LangGraph.js', langchain],
  ['Google ADK', googleAdk],
  ['Mastra', mastra],
  ['Pi', pi],
  ['a loop written by hand', { MultiplyByHand, MultiplyGrader }],
]
