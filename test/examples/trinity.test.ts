import {
  AgentWorkflow,
  discoverEntrypoint,
  LocalBackend,
  requireRolloutContext,
  type AgentWorkflowContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/wire'
import { FakeTrinity, type FakeModel } from '@osmosis/testing'
import { tokenAnswer } from '@osmosis/testing/kit'
import { runWorker, trinity } from '@osmosis/trainers'
import { expect, test } from 'vitest'

import * as aiSdk from '../../examples/rollouts/multiply-ai-sdk/main.ts'
import * as openaiAgents from '../../examples/rollouts/multiply-openai-agents/main.ts'
import * as strands from '../../examples/rollouts/multiply-strands/main.ts'

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

/** Multiplies twice. Then it breaks down in the first attempt, is right in the second, and wrong in the third. */
const model: FakeModel = (body, rolloutId) => {
  const results = body.messages.filter(({ role }) => role === 'tool').length
  if (results < 2) {
    const called = { name: 'multiply', arguments: '{"a":12,"b":3}' }
    const toolCalls = [{ id: `call-${results}`, type: 'function' as const, function: called }]
    return tokenAnswer(body, { content: null, tool_calls: toolCalls })
  }
  if (/-1(-again)?$/.test(rolloutId)) throw new Error('out of memory')
  return tokenAnswer(body, { content: rolloutId.endsWith('-2') ? '#### 36' : '#### 35' })
}

test.each([
  ['OpenAI Agents', openaiAgents],
  ['Strands', strands],
  ['the AI SDK', aiSdk],
  ['a loop written by hand', { MultiplyByHand, MultiplyGrader }],
])(
  'with %s, Trinity trains what was rewarded, and not two calls of what failed',
  async (_name, exports) => {
    await using explorer = await FakeTrinity.start({ model })
    const row = {
      initialMessages: [{ role: 'user', content: '12 * 3?' }],
      label: '36',
      metadata: null,
    }
    await using link = trinity({
      url: explorer.url,
      dataset: [row],
      attempts: 3,
      groupsPerCommit: 1,
      runName: 'run',
    })
    const backend = new LocalBackend(discoverEntrypoint(exports))
    const { ends, retried } = await runWorker({ backend, link, concurrency: 3 })

    expect({ ends, retried }).toEqual({
      ends: { rewarded: 2, removed: 0, failed: 1, cancelled: 0 },
      retried: 1,
    })
    const trained = explorer.trained().map(({ group, run, reward }) => ({ group, run, reward }))
    const right = { group: '0-0', run: 2, reward: 1 }
    const wrong = { group: '0-0', run: 3, reward: 0 }
    expect(trained.toSorted((a, b) => a.run - b.run)).toEqual([
      right,
      right,
      right,
      wrong,
      wrong,
      wrong,
    ])
    // Each prompt goes on where the one before ended: one sequence to learn from.
    const prompts = explorer
      .trained()
      .filter(({ run }) => run === 2)
      .map(({ promptIds }) => promptIds)
    for (const [index, prompt] of prompts.slice(1).entries()) {
      const before = prompts[index] ?? []
      // Without the bracket behind the messages.
      expect(prompt.slice(0, before.length - 1)).toEqual(before.slice(0, -1))
    }
    const failed = explorer.unrewarded().map(({ rolloutId }) => rolloutId)
    expect(failed.toSorted((a, b) => a.localeCompare(b))).toEqual([
      'run-0-0-1',
      'run-0-0-1',
      'run-0-0-1-again',
      'run-0-0-1-again',
    ])
  },
)
