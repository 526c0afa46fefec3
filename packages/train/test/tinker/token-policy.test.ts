import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'

import type { PolicyModel } from '@osmosis/controller'
import type { ChatCompletion, ChatMessage } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import { tokenModelFolder } from '../../../../test/kit/index.ts'
import { ChatTemplate } from '../../src/tinker/chat-template.ts'
import { answerReader } from '../../src/tinker/read-answer.ts'
import { tokenPolicy } from '../../src/tinker/token-policy.ts'
import { neutralFields, refusedFields } from '../sampling-fields.ts'

const [end, letterA, letterB, call] = [0, 6, 7, 10]
const tools = [{ type: 'function', function: { name: 'read_note', parameters: {} } }]
const user: ChatMessage = { role: 'user', content: 'What is the code?' }

interface SampleRequest {
  readonly prompt: readonly number[]
  readonly maxTokens: number
}

/** A policy that gives these answers, and the requests that it received. */
async function scripted(...answers: readonly (readonly number[])[]): Promise<{
  policy: PolicyModel
  requests: SampleRequest[]
  template: ChatTemplate
  weights: { version: number }
}> {
  const weights = { version: 3 }
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
      return { ids, logprobs: ids.map((_, at) => 0 - at), model: `policy-${weights.version}` }
    },
  })
  return { policy, requests, template, weights }
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

it('knows the conversations of two versions, so that not all stay in memory', async () => {
  const { policy, requests, weights } = await scripted([call, letterA])
  const first = await completion(await complete(policy, { messages: [user] }))
  const said = first.choices[0]?.message as ChatMessage
  const [toolCall] = said.tool_calls ?? []
  const result: ChatMessage = { role: 'tool', tool_call_id: toolCall?.id ?? '', content: 'ab' }
  const isContinued = async (): Promise<boolean> => {
    await completion(await complete(policy, { messages: [user, said, result] }))
    const beginning = [...(requests[0]?.prompt ?? []), call, letterA]
    return isDeepStrictEqual(requests.at(-1)?.prompt.slice(0, beginning.length), beginning)
  }
  for (weights.version of [4, 5]) expect(await isContinued()).toBe(true)
  for (weights.version of [6, 7]) await complete(policy, { messages: [user] }, 'other')
  expect(await isContinued()).toBe(false)
})

it.each<[settings: object, message: string]>([
  [{ temperature: 0.7 }, 'trains at temperature 1 alone, and the request asks for 0.7'],
  ...refusedFields.map(([name, value]): [object, string] => [{ [name]: value }, name]),
  [{ stop: ['x'] }, 'leave n and stop out'],
  [{ n: 2 }, 'leave n and stop out'],
  [{ messages: [{ role: 'user', content: 'abcd'.repeat(12) }] }, '"context_length_exceeded"'],
  [{ messages: [{ role: 'user', content: 'abcd'.repeat(12) }] }, 'Raise max_prompt_length in'],
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
    n: 1,
    stop: [],
  }
  for (const fields of neutralFields) {
    const { policy } = await scripted([letterA, end])
    await completion(await complete(policy, { messages: [user], ...fields }))
  }
  const { policy, requests } = await scripted([letterA, end])
  const answer = await completion(await complete(policy, { messages: [user], ...neutral }))
  expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'a' } })
  // As many tokens as a conversation may still have.
  expect(requests[0]?.maxTokens).toBe(48 - (requests[0]?.prompt.length ?? 0))
})

it('gives an answer that has no text', async () => {
  const { policy } = await scripted([end])
  const { choices } = await completion(await complete(policy, { messages: [user] }))
  expect(choices).toMatchObject([
    { finish_reason: 'stop', message: { content: '' }, token_ids: [end] },
  ])
})

it('takes null for a field that is not set, in messages and beside them', async () => {
  const { policy, requests } = await scripted([letterA, end], [letterB, end], [letterB, end])
  const first = await completion(await complete(policy, { messages: [user] }))
  const said = first.choices[0]?.message as ChatMessage
  const nulls = { tool_calls: null, function_call: null, refusal: null }
  const messages = [user, said, user].map((message) => ({ ...nulls, ...message }))
  const settings = { n: null, stop: null, temperature: null, max_tokens: null, tools: null }
  await completion(await complete(policy, { messages, ...settings }))
  await completion(await complete(policy, { messages: [user, said, user] }, 'other'))
  expect(requests[1]).toEqual(requests[2])
})

it('without tools to choose from, what the model wrote is text', async () => {
  const { policy, requests } = await scripted([call, end], [call, end])
  const offered = await completion(await complete(policy, { messages: [user] }))
  expect(offered.choices[0]?.message.tool_calls).toHaveLength(1)
  const body = { messages: [user], tool_choice: 'none' }
  const refused = await completion(await complete(policy, body, 'other'))
  expect(refused.choices[0]).toMatchObject({
    finish_reason: 'stop',
    message: { role: 'assistant', content: expect.stringContaining('read_note') },
  })
  expect(refused.choices[0]?.message).not.toHaveProperty('tool_calls')
  expect(requests).toHaveLength(2)
})

const known = `{%- for message in messages -%}
  {%- if message.role in ['user', 'assistant', 'tool', 'system'] -%}
    {{ '<' + message.role + '>' + (message.content | trim) }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif -%}`

describe('a role that the chat template does not know', () => {
  async function templateOf(source: string): Promise<ChatTemplate> {
    const folder = await tokenModelFolder()
    writeFileSync(path.join(folder, 'chat_template.jinja'), `${source}{# tools <tool_call> #}`)
    return new ChatTemplate(folder)
  }
  const said = (role: string, content: unknown): ChatMessage => ({ role, content }) as ChatMessage

  it('is that of the system where it is another name of it', async () => {
    const messages = [said('developer', 'Be brief.'), user]
    const template = await templateOf(known)
    expect(template.withKnownRoles(messages)[0]).toEqual(said('system', 'Be brief.'))
    const own = await templateOf(known.replace("'system'", "'developer'"))
    expect(own.withKnownRoles(messages)).toEqual(messages)
  })

  it.each([
    ['function', 'text'],
    ['critic', 'text'],
    ['ipython', [{ type: 'text', text: 'text' }]],
    ['', 'assistant'],
  ])('is refused where its text would not reach the model: %j', async (role, content) => {
    const template = await templateOf(known)
    const messages = [user, said(role, content), user]
    expect(() => template.assertReached(messages, [])).toThrow(
      /leaves out the text of messages\[1\]/,
    )
    // Twice, because the form of a conversation is remembered.
    expect(() => template.assertReached(messages, [])).toThrow(JSON.stringify(role))
    // What was answered before is in the prompt as it was sampled.
    expect(() => template.assertReached(messages, [], 2)).not.toThrow()
    expect(() => template.assertReached([user, said(role, ' \n')], [])).not.toThrow()
  })

  it('is no matter where the text is written otherwise', async () => {
    const quoted = await templateOf(
      known.replace('(message.content | trim)', '(message.content | tojson)'),
    )
    const messages = [said('system', 'a "b"\n'), said('tool', ' c\n'), user]
    expect(() => quoted.assertReached(messages, [])).not.toThrow()
    const silent = await templateOf(known.replace("'tool', ", ''))
    expect(() => silent.assertReached(messages, [])).toThrow(/messages\[1\], whose role is "tool"/)
  })
})
