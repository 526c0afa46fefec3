import {
  RolloutContext,
  toRolloutSample,
  type PolicyClient,
  type PromptMessage,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import {
  answerStream,
  eventStream,
  sendStream,
  startPolicyEndpoint,
  type TestPolicyEndpoint,
  runs,
} from '../../../../test/kit/index.ts'

const prompt: ChatMessage = { role: 'user', content: 'go' }

/** A policy that says `turns` one after the other, and a client to hear it. */
async function conversation(
  ...turns: (string | Record<string, unknown>)[]
): Promise<{ policy: TestPolicyEndpoint; client: PolicyClient }> {
  const policy = await startPolicyEndpoint((response, n) =>
    sendStream(response, answerStream(turns[n - 1] ?? 'done')),
  )
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
  return { policy, client: rollout.policy('main') }
}

function toolCall(id: string, args: string, name = 'f'): object {
  return { id, type: 'function', function: { name, arguments: args } }
}

/** The messages of the request `n` (1 is the first). Their JSON was parsed, so this shows texts, and not how they are escaped. */
function sentMessages(policy: TestPolicyEndpoint, n: number): unknown {
  return policy.requests[n - 1]?.body.messages
}

describe('a call in the prompt of the rollout', () => {
  const sent = async (args: string, own: ChatMessage[] = []): Promise<unknown> => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const written = '{ "a": 1.0, "big": 12345678901234567890 }'
    const call: ChatMessage = { role: 'assistant', tool_calls: [toolCall('c1', written)] as never }
    const initialMessages = [prompt, call, ...own] as PromptMessage[]
    const place = { rolloutId: 'r', chatCompletionsUrl: policy.url, initialMessages }
    const client = new RolloutContext(place).policy('main')
    const echo = { ...call, tool_calls: [toolCall('c1', args)] as never }
    await client.complete({ messages: [prompt, echo] })
    const [, { tool_calls: calls = [] } = {}] = sentMessages(policy, 1) as ChatMessage[]
    return calls[0]?.function.arguments
  }

  it('is sent as it is written there, whatever a framework made of its numbers', async () => {
    const asRead = '{"a":1,"big":12345678901234567000}'
    expect(await sent(asRead)).toBe('{ "a": 1.0, "big": 12345678901234567890 }')
    const broken = [{ role: 'assistant', tool_calls: [null, {}, { id: 'c1' }] } as never]
    expect(await sent(asRead, broken)).toBe('{ "a": 1.0, "big": 12345678901234567890 }')
  })

  it('stays changed where the agent changed it', async () => {
    expect(await sent('{"a":2}')).toBe('{"a":2}')
  })
})

describe('a turn of the policy that a framework sends back', () => {
  it.each([
    [
      're-serialised arguments',
      '{ "a" : 12.0, "big": 12345678901234567890 }',
      '{"a":12,"big":12345678901234567000}',
    ],
    ['reordered keys', '{"a": 1, "b": [1, 2]}', '{"b":[1,2],"a":1}'],
    ['escaped unicode', '{"city": "K\\u00f6ln"}', '{"city":"Köln"}'],
    ['numbers that JSON cannot write', '{"a": -0, "b": 1e999}', '{"a":0,"b":null}'],
    ['no change at all', '{"a":1}', '{"a":1}'],
  ])('is sent exactly as the policy said it despite %s', async (_what, said, echoed) => {
    const { policy, client } = await conversation({
      content: 'let me see',
      tool_calls: [toolCall('c1', said)],
    })
    await client.complete({ messages: [prompt] })
    const result = { role: 'tool', tool_call_id: 'c1', content: '4' }
    await client.complete({
      messages: [
        prompt,
        {
          role: 'assistant',
          content: [{ type: 'text', text: 'let me see', annotations: [] }],
          tool_calls: [toolCall('c1', echoed)],
        } as ChatMessage,
        result,
      ],
    })
    expect(sentMessages(policy, 2)).toEqual([
      prompt,
      { role: 'assistant', content: 'let me see', tool_calls: [toolCall('c1', said)] },
      result,
    ])
  })

  it.each([[null], [''], [[]], [[{ type: 'text', text: '' }]], [undefined]])(
    'is known when it has no text, and the framework writes that as %j',
    async (content) => {
      const said = '{ "a": 1.0 }'
      const { policy, client } = await conversation({ tool_calls: [toolCall('c1', said)] })
      await client.complete({ messages: [prompt] })
      const echo = { role: 'assistant', content, tool_calls: [toolCall('c1', '{"a":1}')] }
      const result = { role: 'tool', tool_call_id: 'c1', content: '4' }
      await client.complete({ messages: [prompt, echo as ChatMessage, result] })
      expect(sentMessages(policy, 2)).toMatchObject([
        prompt,
        { tool_calls: [toolCall('c1', said)] },
        result,
      ])
    },
  )

  it('has one id for a tool call that came without, and the own one of the policy where that comes late', async () => {
    const call = (index: number, more: object): object => ({
      choices: [{ index: 0, delta: { tool_calls: [{ index, ...more }] } }],
    })
    const said = [
      call(0, { function: { name: 'f', arguments: '' } }),
      call(0, { function: { arguments: '{"a": ' } }),
      call(0, { id: 'late', function: { arguments: '1}' } }),
      call(1, { id: '', function: { name: 'f', arguments: '{ }' } }),
      call(1, { id: 'c3', function: { name: 'f', arguments: '{}' } }),
      { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    ]
    const policy = await startPolicyEndpoint((response, n) =>
      sendStream(response, n === 1 ? eventStream(...said) : answerStream('done')),
    )
    const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
    const client = rollout.policy('main')
    const ids: string[] = []
    for await (const { choices } of client.stream({ messages: [prompt] })) {
      for (const { id } of choices[0]?.delta?.tool_calls ?? []) if (id) ids.push(id)
    }
    const [first = '', second = ''] = ids
    expect(ids).toStrictEqual([first, second, 'c3'])
    expect(first).toMatch(/^call_[0-9a-f]{32}$/)
    expect(second).toMatch(/^call_[0-9a-f]{32}$/)

    const result = { role: 'tool', tool_call_id: first, content: '4' }
    const echo = [toolCall(first, '{"a":1}'), toolCall(second, '{}'), toolCall('c3', '{}')]
    await client.complete({
      messages: [
        prompt,
        { role: 'assistant', content: null, tool_calls: echo } as ChatMessage,
        result,
      ],
    })
    expect(sentMessages(policy, 2)).toStrictEqual([
      prompt,
      {
        role: 'assistant',
        content: null,
        tool_calls: [toolCall('late', '{"a": 1}'), toolCall(second, '{ }'), toolCall('c3', '{}')],
      },
      { ...result, tool_call_id: 'late' },
    ])
  })

  it('keeps its thinking when the framework drops it, and when it sends it back', async () => {
    for (const echo of [{}, { reasoning: 'hmm' }, { reasoning_content: 'hmm' }]) {
      const { policy, client } = await conversation({ content: 'yes', reasoning_content: 'hmm' })
      await client.complete({ messages: [prompt] })
      await client.complete({ messages: [prompt, { role: 'assistant', content: 'yes', ...echo }] })
      expect(sentMessages(policy, 2)).toEqual([
        prompt,
        { role: 'assistant', content: 'yes', reasoning_content: 'hmm' },
      ])
    }
  })

  it('keeps its thinking when the framework sends back the last piece of it', async () => {
    const answers = [
      { content: 'yes', reasoning_content: 'I should add.' },
      { content: 'yes', reasoning_content: 'add.' },
    ]
    const { policy, client } = await conversation(...answers)
    await client.complete({ messages: [prompt] })
    await client.complete({ messages: [prompt] })
    const echo: ChatMessage = { role: 'assistant', content: 'yes', reasoning_content: 'add.' }
    await client.complete({ messages: [prompt, echo] })
    // The policy has said both, so the echo is taken for the turn that it equals.
    expect(sentMessages(policy, 3)).toEqual([prompt, echo])

    const other = await conversation(...answers.slice(0, 1))
    await other.client.complete({ messages: [prompt] })
    await other.client.complete({ messages: [prompt, echo] })
    expect(sentMessages(other.policy, 2)).toEqual([prompt, { role: 'assistant', ...answers[0] }])
  })

  it('is known by the id of a call whose malformed arguments the framework repairs', async () => {
    const said = toolCall('c1', '{"a": 1, "b')
    const { policy, client } = await conversation({ tool_calls: [said] })
    await client.complete({ messages: [prompt] })
    const repaired = { role: 'assistant', content: '', tool_calls: [toolCall('c1', '{"a":1}')] }
    await client.complete({ messages: [prompt, repaired as ChatMessage] })
    expect(sentMessages(policy, 2)).toEqual([
      prompt,
      { role: 'assistant', content: null, tool_calls: [toolCall('c1', '{}')] },
    ])
  })

  it('keeps text that is nothing but white space when the framework drops it', async () => {
    const said = [{ content: '\n\n', tool_calls: [toolCall('c1', '{}')] }, { content: ' \n' }]
    const { policy, client } = await conversation(...said)
    const echoes: ChatMessage[] = [
      { role: 'assistant', content: '', tool_calls: [toolCall('c1', '{}')] } as ChatMessage,
      { role: 'assistant', content: null },
    ]
    const result = { role: 'tool', tool_call_id: 'c1', content: '4' }
    await client.complete({ messages: [prompt] })
    await client.complete({ messages: [prompt, ...echoes.slice(0, 1), result] })
    await client.complete({ messages: [prompt, ...echoes.slice(0, 1), result, ...echoes.slice(1)] })
    expect(sentMessages(policy, 3)).toEqual([
      prompt,
      { role: 'assistant', ...said[0] },
      result,
      { role: 'assistant', ...said[1] },
    ])
  })

  it('keeps text beside its tool calls that the framework drops because the turn has it already', async () => {
    const said = (id: string) => ({ content: 'Let me look.', tool_calls: [toolCall(id, '{ }')] })
    const echo = (id: string, content: string | null): ChatMessage =>
      ({ role: 'assistant', content, tool_calls: [toolCall(id, '{}')] }) as ChatMessage
    const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: '4' })
    const { policy, client } = await conversation(said('c1'), said('c2'), said('c3'))
    const sent: ChatMessage[] = [prompt]
    await client.complete({ messages: [...sent] })
    sent.push(echo('c1', 'Let me look.'), result('c1'))
    await client.complete({ messages: [...sent] })
    sent.push(echo('c2', null), result('c2'), prompt)
    await client.complete({ messages: [...sent] })
    // A text that the turn does not have was removed on purpose.
    sent.push(echo('c3', ''))
    await client.complete({ messages: [...sent] })
    expect(sentMessages(policy, 4)).toEqual([
      prompt,
      { role: 'assistant', ...said('c1') },
      result('c1'),
      { role: 'assistant', ...said('c2') },
      result('c2'),
      prompt,
      echo('c3', ''),
    ])
  })

  it('keeps its thinking where both names of it came and one is empty', async () => {
    const said = { content: 'yes', reasoning_content: '', reasoning: 'hmm' }
    const { policy, client } = await conversation(said)
    await client.complete({ messages: [prompt] })
    const echo: ChatMessage = { role: 'assistant', content: 'yes', reasoning_content: 'hmm' }
    await client.complete({ messages: [prompt, echo] })
    expect(sentMessages(policy, 2)).toEqual([prompt, { role: 'assistant', ...said }])
  })

  it('stays a refusal when the framework makes a text of it', async () => {
    const { policy, client } = await conversation({ content: '', refusal: 'I will not.' })
    await client.complete({ messages: [prompt] })
    await client.complete({ messages: [prompt, { role: 'assistant', content: 'I will not.' }] })
    expect(sentMessages(policy, 2)).toEqual([
      prompt,
      { role: 'assistant', content: '', refusal: 'I will not.' },
    ])
  })

  it('keeps thinking of its own where the same words were said twice', async () => {
    const first = { content: 'yes', reasoning_content: 'first thought' }
    const second = { content: 'yes', reasoning_content: 'second thought' }
    const { policy, client } = await conversation(first, second)
    const echo: ChatMessage = { role: 'assistant', content: 'yes' }
    await client.complete({ messages: [prompt] })
    await client.complete({ messages: [prompt, echo, prompt] })
    await client.complete({ messages: [prompt, echo, prompt, echo, prompt] })
    expect(sentMessages(policy, 3)).toEqual([
      prompt,
      { role: 'assistant', ...first },
      prompt,
      { role: 'assistant', ...second },
      prompt,
    ])
  })

  it('is found again when earlier messages were cut off', async () => {
    const said = toolCall('c1', '{"a": 1.0}')
    const { policy, client } = await conversation({ tool_calls: [said] })
    await client.complete({ messages: [{ role: 'system', content: 'long' }, prompt] })
    await client.complete({
      messages: [
        prompt,
        { role: 'assistant', content: '', tool_calls: [toolCall('c1', '{"a":1}')] } as ChatMessage,
      ],
    })
    expect(sentMessages(policy, 2)).toEqual([
      prompt,
      { role: 'assistant', content: null, tool_calls: [said] },
    ])
  })

  it('goes out as the framework says when the framework changed what was said', async () => {
    const { policy, client } = await conversation(
      { content: 'secret', tool_calls: [toolCall('c1', '{"a": 1}')] },
      'x',
    )
    await client.complete({ messages: [prompt] })
    const edited: ChatMessage[] = [
      {
        role: 'assistant',
        content: '[removed]',
        tool_calls: [toolCall('c1', '{"a": 1}')],
      } as ChatMessage,
      {
        role: 'assistant',
        content: 'secret',
        tool_calls: [toolCall('c1', '{"a":2}')],
      } as ChatMessage,
      {
        role: 'assistant',
        content: 'secret',
        tool_calls: [toolCall('c1', '{"a":1}', 'g')],
      } as ChatMessage,
      { role: 'assistant', content: 'secret' },
    ]
    await client.complete({ messages: edited })
    expect(sentMessages(policy, 2)).toEqual(edited)
  })

  it.each([
    ['cut off', '{"a": 1'],
    ['not an object', '[1, 2]'],
    ['not JSON', 'a=1'],
    ['empty', ''],
  ])(
    'has {} for arguments that are %s, because templates parse them, and the record keeps them',
    async (_what, said) => {
      for (const echoed of [said, '{}']) {
        const policy = await startPolicyEndpoint((response, n) =>
          sendStream(
            response,
            answerStream(n === 1 ? { tool_calls: [toolCall('c1', said)] } : 'done'),
          ),
        )
        const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
        rollout.registerSampleSource('main', {
          getSample: (id) => toRolloutSample({ id, messages: [] }),
        })
        const client = rollout.policy('main')
        const completion = await client.complete({ messages: [prompt] })
        // The agent runs a tool without parameters.
        expect(completion.choices[0]?.message.tool_calls).toEqual([toolCall('c1', said || '{}')])
        await client.complete({
          messages: [
            prompt,
            {
              role: 'assistant',
              content: null,
              tool_calls: [toolCall('c1', echoed)],
            } as ChatMessage,
          ],
        })
        expect(sentMessages(policy, 2)).toEqual([
          prompt,
          { role: 'assistant', content: null, tool_calls: [toolCall('c1', '{}')] },
        ])
        const sample = (await rollout.getSamples()).get('main')
        expect(sample?.trajectoryMessages).toEqual([
          prompt,
          { role: 'assistant', content: null, tool_calls: [toolCall('c1', said)] },
          { role: 'assistant', content: 'done' },
        ])
      }
    },
  )
})

it('sends calls of other forms as the agent has them, before and behind answers of the policy', async () => {
  const custom = { id: 'c1', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } }
  const results = [{ role: 'tool', tool_call_id: 'c1', content: '1' }]
  const examples = [[custom], [custom, { ...custom, id: 'c2' }], [null, {}], 'none'].flatMap(
    (calls) => [{ role: 'assistant', content: null, tool_calls: calls }, ...results],
  ) as ChatMessage[]
  // An answer with a name that the agent gets under another one.
  const { policy, client } = await conversation({ tool_calls: [toolCall('c1', '{}', 'a b')] })
  const { choices } = await client.complete({ messages: [prompt, ...examples] })
  await client.complete({ messages: [prompt, ...examples, choices[0]?.message as ChatMessage] })
  expect(sentMessages(policy, 1)).toEqual([prompt, ...examples])
  expect(sentMessages(policy, 2)).toMatchObject([
    prompt,
    ...examples,
    { tool_calls: [{ id: 'c1', function: { name: 'a b' } }] },
  ])
})

it('joins text parts of assistant messages only: other roles go out untouched', async () => {
  const { policy, client } = await conversation()
  const parts = [
    { type: 'text', text: 'a' },
    { type: 'text', text: 'b' },
  ]
  await client.complete({
    messages: [
      { role: 'user', content: parts },
      { role: 'assistant', content: parts },
      { role: 'user', content: parts },
    ],
  })
  expect(sentMessages(policy, 1)).toEqual([
    { role: 'user', content: parts },
    { role: 'assistant', content: 'ab' },
    { role: 'user', content: parts },
  ])
})

it('sends every text of a random turn back as it was said, whatever JSON.parse and stringify did to it', async () => {
  const spaced = fc
    .dictionary(
      fc.string(),
      fc.oneof(
        fc.string(),
        fc.integer(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.boolean(),
        fc.constant(null),
      ),
    )
    .map((value) => JSON.stringify(value, null, 1))
  const turn = fc.record({
    content: fc.string(),
    reasoning: fc.string(),
    calls: fc.array(spaced, { maxLength: 3 }),
  })

  await fc.assert(
    fc.asyncProperty(turn, async ({ content, reasoning, calls }) => {
      const said = {
        role: 'assistant',
        content: content === '' && calls.length > 0 ? null : content,
        ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
        ...(calls.length > 0
          ? { tool_calls: calls.map((args, index) => toolCall(`c${index}`, args)) }
          : {}),
      }
      const { policy, client } = await conversation(said)
      await client.complete({ messages: [prompt] })
      const echo = {
        role: 'assistant',
        content: [{ type: 'text', text: content }],
        ...(calls.length > 0
          ? {
              tool_calls: calls.map((args, index) =>
                toolCall(`c${index}`, JSON.stringify(JSON.parse(args))),
              ),
            }
          : {}),
      } as ChatMessage
      await client.complete({ messages: [prompt, echo] })
      expect(sentMessages(policy, 2)).toEqual([prompt, said])
    }),
    { numRuns: runs(50) },
  )
})
