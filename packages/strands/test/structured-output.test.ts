import { startPolicyServer } from '@osmosis/testing'
import { StructuredOutputError } from '@strands-agents/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { kindsOf, policyAgent } from './rollout.ts'

const structuredOutputSchema = z.object({ sum: z.number() })
const answer = {
  toolCalls: [{ id: 'call-1', name: 'strands_structured_output', arguments: '{"sum": 3}' }],
  finishReason: 'stop',
}

test('structured output is an answer of the policy', async () => {
  await using server = await startPolicyServer([answer])
  const rollout = rolloutOn(server)
  const result = await rollout.run(async () => policyAgent({ structuredOutputSchema }).invoke('go'))
  expect(result.structuredOutput).toEqual({ sum: 3 })
  expect(kindsOf((await sampleOf(rollout)).messages)).toEqual([
    'user:text',
    'assistant:toolUse',
    'user:toolResult',
  ])
})

test('structured output is requested again after a text, which stays in the conversation', async () => {
  await using server = await startPolicyServer(['It is 3.', answer])
  const rollout = rolloutOn(server)
  await rollout.run(async () => policyAgent({ structuredOutputSchema }).invoke('go'))
  expect(server.requests[1]?.body['tool_choice']).toEqual({
    type: 'function',
    function: { name: 'strands_structured_output' },
  })
  expect(messagesOf(server.requests[1])).toEqual([{ role: 'user', content: 'go' }])
  const { calls, extraFields, messages } = await sampleOf(rollout)
  expect(calls).toHaveLength(2)
  expect(kindsOf(messages)[1]).toBe('assistant:toolUse')
  expect(extraFields).toEqual({
    history_rewritten: true,
    other_conversations: [
      [
        { role: 'user', content: 'go' },
        { role: 'assistant', content: 'It is 3.' },
      ],
    ],
  })
})

test('texts only are an error of Strands, and the last one is in the sample', async () => {
  await using server = await startPolicyServer(['It is 3.', 'As I said: 3.'])
  const rollout = rolloutOn(server)
  const run = rollout.run(async () => policyAgent({ structuredOutputSchema }).invoke('go'))
  await expect(run).rejects.toBeInstanceOf(StructuredOutputError)
  expect((await sampleOf(rollout)).messages).toEqual([
    { role: 'user', content: [{ text: 'go' }] },
    { role: 'assistant', content: [{ text: 'As I said: 3.' }] },
  ])
})
