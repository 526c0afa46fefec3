import { tokenModelFolder } from '../../../../test/kit/index.ts'
import type { ChatCompletion, ChatMessage } from '@osmosis/core/policy'
import type { PolicyModel } from '@osmosis/controller'
import { expect, it } from 'vitest'

import { ChatTemplate } from '../../src/tinker/chat-template.ts'
import { answerReader } from '../../src/tinker/read-answer.ts'
import { tokenPolicy } from '../../src/tinker/token-policy.ts'

const [end, letterA, letterB, call] = [0, 6, 7, 10]
const tools = [{ type: 'function', function: { name: 'read_note', parameters: {} } }]
const user: ChatMessage = { role: 'user', content: 'What is the code?' }

interface SampleRequest {
  readonly prompt: readonly number[]
  readonly maxTokens: number
}

/** A policy that gives these answers, and the requests that it received. */
async function scripted(
  ...answers: readonly (readonly number[])[]
): Promise<{ policy: PolicyModel; requests: SampleRequest[]; template: ChatTemplate }> {
  const template = new ChatTemplate(await tokenModelFolder())
  const requests: SampleRequest[] = []
  const policy = tokenPolicy({
    name: 'base',
    template,
    readAnswer: answerReader(template.source),
    maxLength: 48,
    sample: async (prompt, { maxTokens }) => {
      const ids = answers[requests.length] ?? [end]
      requests.push({ prompt, maxTokens })
      return { ids, logprobs: ids.map((_, at) => 0 - at), model: 'policy-3' }
    },
  })
  return { policy, requests, template }
}

async function complete(
  policy: PolicyModel,
  body: Readonly<Record<string, unknown>>,
  rolloutId = 'r',
): Promise<Response> {
  const signal = new AbortController().signal
  return policy.respond({ rolloutId, sampleId: 's', headers: {}, signal, body: { tools, ...body } })
}

async function completion(response: Response): Promise<ChatCompletion> {
  expect(response.status).toBe(200)
  return (await response.json()) as ChatCompletion
}

it('answers with the tool calls, ids and logprobs of what was sampled', async () => {
  const { policy, requests, template } = await scripted([call, end])
  const answer = await completion(await complete(policy, { messages: [user], max_tokens: 9 }))
  expect(requests).toEqual([{ prompt: [2, 5, 6, 5, 8, 5, 9, 5, end, 3], maxTokens: 9 }])
  expect(template.decode(requests[0]?.prompt ?? [])).toBe('<user>?a?c?d?<end><assistant>')
  expect(answer).toMatchObject({
    model: 'policy-3',
    prompt_token_ids: requests[0]?.prompt,
    choices: [
      {
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: null,
          tool_calls: [{ type: 'function', function: { name: 'read_note', arguments: '{}' } }],
        },
        token_ids: [call, end],
        logprobs: { content: [{ logprob: 0 }, { logprob: -1 }] },
      },
    ],
    usage: { prompt_tokens: requests[0]?.prompt.length, completion_tokens: 2 },
  })
})

it('continues a conversation with the ids that were sampled', async () => {
  // It ends without its end token, and would be rendered with the letter before the call.
  const { policy, requests } = await scripted([call, letterA], [letterB, end])
  const first = await completion(await complete(policy, { messages: [user] }))
  expect(first.choices[0]?.finish_reason).toBe('length')
  const said = first.choices[0]?.message as ChatMessage
  const [toolCall] = said.tool_calls ?? []
  const result: ChatMessage = { role: 'tool', tool_call_id: toolCall?.id ?? '', content: 'ab' }
  const messages = [user, said, result]
  await complete(policy, { messages })
  const [one, two] = requests
  expect(two?.prompt).toEqual([
    ...(one?.prompt ?? []),
    call,
    letterA,
    end,
    4,
    letterA,
    letterB,
    end,
    3,
  ])

  // Another rollout has not had that conversation: it is rendered.
  await complete(policy, { messages }, 'other')
  expect(requests[2]?.prompt).not.toEqual(two?.prompt)
})

it.each([
  [{ temperature: 0.7 }, 'trains at temperature 1 alone, and the request asks for 0.7'],
  [{ top_p: 0.9 }, 'leave top_p out'],
  [{ top_k: 5 }, 'leave top_k out'],
  [{ presence_penalty: 0.5 }, 'leave presence_penalty out'],
  [{ stop: ['x'] }, 'leave n and stop out'],
  [{ n: 2 }, 'leave n and stop out'],
  [{ messages: [{ role: 'user', content: 'abcd'.repeat(12) }] }, 'context_length_exceeded'],
  [
    { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
    'no content of type image_url',
  ],
])('refuses what it cannot sample: %j', async (settings, message) => {
  const { policy, requests } = await scripted()
  const response = await complete(policy, { messages: [user], ...settings })
  expect(response.status).toBe(400)
  expect(await response.text()).toContain(message)
  expect(requests).toEqual([])
})

it('accepts settings that change nothing', async () => {
  const neutral = {
    temperature: 1,
    top_p: 1,
    top_k: 0,
    min_p: 0,
    frequency_penalty: 0,
    n: 1,
    stop: [],
  }
  const { policy, requests } = await scripted([letterA, end])
  const answer = await completion(await complete(policy, { messages: [user], ...neutral }))
  expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'a' } })
  // As many tokens as a conversation may still have.
  expect(requests[0]?.maxTokens).toBe(48 - (requests[0]?.prompt.length ?? 0))
})
