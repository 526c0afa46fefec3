import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'

import { Agent, type AgentTool } from '@earendil-works/pi-agent-core'
import { lastAssistantText, type PromptMessage } from '@osmosis/core'
import { rolloutStreamFn, toAgentMessages } from '@osmosis/pi'
import { fault, startPolicyServer } from '@osmosis/testing'
import { Type } from 'typebox'
import { describe, expect, it, onTestFinished } from 'vitest'

import { execute, messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'

const Place = Type.Object({ file: Type.String(), text: Type.Optional(Type.String()) })

/** The tools of a coding agent, in a folder of its own. */
function fileTools(folder: string): AgentTool<typeof Place>[] {
  const said = (text: string) => ({ content: [{ type: 'text' as const, text }], details: {} })
  return [
    {
      name: 'read',
      label: 'Read',
      description: 'Reads a file.',
      parameters: Place,
      execute: async (_id, { file }) => said(await readFile(path.join(folder, file), 'utf8')),
    },
    {
      name: 'write',
      label: 'Write',
      description: 'Writes a file.',
      parameters: Place,
      async execute(_id, { file, text = '' }) {
        await writeFile(path.join(folder, file), text)
        return said('written')
      },
    },
  ]
}

it('a coding agent reads and writes files, and is told what its tools cannot do', async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'osmosis-'))
  onTestFinished(async () => rm(folder, { recursive: true }))
  await using server = await startPolicyServer([
    {
      toolCalls: [
        { id: 'c1', name: 'write', arguments: '{ "file": "a.txt", "text": "é\\u00e9" }' },
      ],
    },
    { toolCalls: [{ id: 'c2', name: 'read', arguments: '{"file":"b.txt"}' }] },
    { toolCalls: [{ id: 'c3', name: 'read', arguments: '{"file": "a.t' }] },
    {
      reasoning: 'It is there.',
      toolCalls: [{ id: 'c4', name: 'read', arguments: '{"file":"a.txt"}' }],
    },
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const agent = new Agent({
      initialState: { systemPrompt: 'You write code.', tools: fileTools(folder) },
      streamFn: rolloutStreamFn('main'),
    })
    await agent.prompt('go')
    expect(agent.state.errorMessage).toBeUndefined()
  })
  const { calls, messages, trajectoryMessages } = await sampleOf(rollout)
  expect(calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual(Array(5).fill(true))
  const results = trajectoryMessages?.filter(({ role }) => role === 'tool')
  expect(results?.map(({ content }) => content)).toEqual([
    'written',
    expect.stringContaining('ENOENT'),
    expect.stringContaining('not a JSON object: {"file": "a.t'),
    'éé',
  ])
  const args = trajectoryMessages?.flatMap(({ tool_calls = [] }) =>
    tool_calls.map(({ function: called }) => called.arguments),
  )
  expect(args).toEqual([
    '{ "file": "a.txt", "text": "é\\u00e9" }',
    '{"file":"b.txt"}',
    '{"file": "a.t',
    '{"file":"a.txt"}',
  ])
  expect(messages.at(-1)).toMatchObject({
    role: 'assistant',
    content: [{ type: 'text', text: 'done' }],
    stopReason: 'stop',
    usage: { totalTokens: expect.any(Number) },
  })
})

const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }

it('the messages of a row reach the policy as they are', async () => {
  const prompt: PromptMessage[] = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'What is this?' }, image] },
    {
      role: 'assistant',
      content: 'Let me see.',
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'see', arguments: '{"zoom": 1.0}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'a dot' },
    { role: 'assistant', content: 'A dot.' },
    { role: 'user', content: 'Sure?' },
  ]
  await using server = await startPolicyServer(['yes'])
  const agent = new Agent({ streamFn: rolloutStreamFn('main') })
  await execute(server, async (ctx) => agent.prompt(toAgentMessages(ctx.prompt)), { prompt })
  expect(messagesOf(server.requests[0])).toEqual(prompt)
  expect(server.requests[0]?.headers['user-agent']).toBe('pi')
})

it('parts of a text that is one for Pi are put together as they are', async () => {
  const text = ['a', 'b'].map((part) => ({ type: 'text', text: part }))
  const prompt: PromptMessage[] = [
    { role: 'system', content: text },
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'see', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: text },
  ]
  await using server = await startPolicyServer(['yes'])
  const agent = new Agent({ streamFn: rolloutStreamFn('main') })
  await execute(server, async (ctx) => agent.prompt(toAgentMessages(ctx.prompt)), { prompt })
  const sent = messagesOf(server.requests[0])
  expect([sent[0], sent[3]].map((message) => message?.content)).toEqual(['ab', 'ab'])
})

it('keeps arguments that are objects, and the refusal of an assistant', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'read', arguments: { file: 'a' } } }
  expect(
    toAgentMessages([
      { role: 'assistant', content: null, refusal: 'I must not.', tool_calls: [call] },
      { role: 'assistant', content: 'Yes.', tool_calls: null },
    ]),
  ).toMatchObject([
    {
      content: [
        { type: 'text', text: 'I must not.' },
        { type: 'toolCall', name: 'read', arguments: { file: 'a' } },
      ],
    },
    { content: [{ type: 'text', text: 'Yes.' }] },
  ])
})

it.each<[PromptMessage, string]>([
  [{ role: 'user', content: [{ type: 'input_audio' }] }, 'a part of the type "input_audio"'],
  [{ role: 'user', content: [null] }, 'a part of the type undefined'],
  [
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'custom', custom: {} }] },
    'tool calls of the type "custom"',
  ],
  [
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'custom', function: null }] },
    'tool calls of the type "custom"',
  ],
  [{ role: 'assistant', content: null, tool_calls: [null] }, 'tool calls of the type undefined'],
  [
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '[1]' } }],
    },
    'tool arguments that are not a JSON object: [1]',
  ],
])('is refused where Pi has no form for it: %j', (message, what) => {
  expect(() => toAgentMessages([message])).toThrow(`Pi has no form for ${what}`)
})

describe('a call that fails', () => {
  it.each([
    ['a 400', fault.status(400), 'policy_http_error'],
    [
      'half an answer',
      fault.on('an answer of which half arrives', { cutAfterBytes: 700 }),
      'policy_stream_error',
    ],
  ])('with %s ends the run with a message, and fails the rollout', async (_what, reply, code) => {
    await using server = await startPolicyServer(() => reply)
    let stopReason: unknown
    const { workflow } = await execute(server, async () => {
      const agent = new Agent({ streamFn: rolloutStreamFn('main') })
      await agent.prompt('go')
      const last = agent.state.messages.at(-1)
      stopReason = last?.role === 'assistant' && last.stopReason
    })
    expect(stopReason).toBe('error')
    expect(workflow.failure).toMatchObject({ category: 'http_error', cause: { code } })
    expect(server.requests).toHaveLength(1)
  })

  it('does not fail the rollout when the agent continues, and its turn is not sent', async () => {
    await using server = await startPolicyServer([fault.status(400), 'fine'])
    const { workflow } = await execute(server, async () => {
      const agent = new Agent({ streamFn: rolloutStreamFn('main') })
      await agent.prompt('go')
      await agent.prompt('again')
    })
    expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
    expect(messagesOf(server.requests[1]).map(({ role }) => role)).toEqual(['user', 'user'])
  })
})

it('calls beside the conversation are recorded, and are not the sample', async () => {
  await using server = await startPolicyServer(['A title.', 'done'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const title = rolloutStreamFn({ name: 'main', purpose: 'title', trainable: false })
    await new Agent({ streamFn: title }).prompt('Name it.')
    await new Agent({ streamFn: rolloutStreamFn('main') }).prompt('go')
  })
  const { calls, messages } = await sampleOf(rollout)
  expect(calls).toMatchObject([
    { purpose: 'title', trainable: false },
    { purpose: 'agent', trainable: true },
  ])
  expect(messages).toMatchObject([{ role: 'user' }, { content: [{ text: 'done' }] }])
})

it('the sample keeps the answer when the same call is made again and aborted', async () => {
  await using server = await startPolicyServer(['the answer', fault.hang('headers')])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const prompt = toAgentMessages([{ role: 'user', content: 'go' }])
    const agents = [0, 1].map(() => new Agent({ streamFn: rolloutStreamFn('main') }))
    await agents[0]?.prompt(prompt)
    const again = agents[1]?.prompt(prompt)
    await server.waitForRequest(1)
    agents[1]?.abort()
    await again
  })
  const sample = await sampleOf(rollout)
  expect(lastAssistantText(sample)).toBe('the answer')
})
