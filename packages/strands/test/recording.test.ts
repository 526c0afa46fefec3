import { lastAssistantText } from '@osmosis/core'
import { fault, type ReceivedRequest, startPolicyServer } from '@osmosis/testing'
import {
  Graph,
  MessageAddedEvent,
  SlidingWindowConversationManager,
  Swarm,
  tool,
} from '@strands-agents/sdk'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { callAdd, messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'
import { addTool, kindsOf, policyAgent } from './rollout.ts'

/** The last text that is not from the policy. */
function lastInput(request: ReceivedRequest): string {
  const content = messagesOf(request).at(-1)?.content
  return typeof content === 'string' ? content : ''
}

function callHelper(...inputs: string[]): {
  toolCalls: { id: string; name: string; arguments: string }[]
} {
  const toolCalls = inputs.map((input, n) => ({
    id: `call-${n}`,
    name: 'helper',
    arguments: JSON.stringify({ input }),
  }))
  return { toolCalls }
}

describe('an agent used as a tool', () => {
  test('is a sample of its own, with all its conversations', async () => {
    await using server = await startPolicyServer((request) => {
      if (request.headers['x-sample-id'] === 'helper') return `heard ${lastInput(request)}`
      return ['go', 'heard one'].includes(lastInput(request))
        ? callHelper(lastInput(request) === 'go' ? 'one' : 'two')
        : 'done'
    })
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const helper = policyAgent({ name: 'helper', description: 'Helps.' })
      await policyAgent({ tools: [helper] }).invoke('go')
    })
    expect(sampleIds(server)).toEqual(['main', 'helper', 'main', 'helper', 'main'])
    expect(lastAssistantText(await sampleOf(rollout))).toBe('done')
    const helped = await sampleOf(rollout, 'helper')
    const conversation = (input: string) => [
      { role: 'user', content: [{ text: input }] },
      { role: 'assistant', content: [{ text: `heard ${input}` }] },
    ]
    expect(helped.messages).toEqual(conversation('two'))
    expect(helped.extraFields).toEqual({
      conversations: [conversation('one')],
      history_rewritten: true,
      other_conversations: [
        [
          { role: 'user', content: 'one' },
          { role: 'assistant', content: 'heard one' },
        ],
      ],
    })
    expect(helped.calls).toHaveLength(2)
  })

  test('that failed on its second use is what it was on its first', async () => {
    await using server = await startPolicyServer([
      callHelper('one'),
      'first',
      callHelper('two'),
      fault.status(400),
      fault.status(400),
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const helper = policyAgent({ name: 'helper' })
      await expect(policyAgent({ tools: [helper] }).invoke('go')).rejects.toThrow('answered 400')
    })
    const { messages, extraFields } = await sampleOf(rollout, 'helper')
    expect(messages.at(-1)).toEqual({ role: 'assistant', content: [{ text: 'first' }] })
    expect(extraFields['conversations']).toEqual([[{ role: 'user', content: [{ text: 'two' }] }]])
  })
})

describe('several agents', () => {
  /** Without these Strands warns. */
  const bounded = { maxSteps: 10, timeout: 20_000 }

  test('that are nodes of a Graph are samples, although Strands resets them', async () => {
    await using server = await startPolicyServer(
      ({ headers }) => `said by ${String(headers['x-sample-id'])}`,
    )
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const [writer, editor] = ['writer', 'editor'].map((id) => policyAgent({ name: id, id }))
      if (!writer || !editor) throw new Error('no agents')
      const graph = new Graph({
        nodes: [writer, editor],
        edges: [['writer', 'editor']],
        ...bounded,
      })
      await graph.invoke('go')
      expect(writer.messages).toEqual([])
    })
    expect(sampleIds(server)).toEqual(['writer', 'editor'])
    for (const name of ['writer', 'editor']) {
      const sample = await sampleOf(rollout, name)
      expect(kindsOf(sample.messages).at(-1)).toBe('assistant:text')
      expect(lastAssistantText(sample)).toBe(`said by ${name}`)
    }
  })

  test('of a Swarm are samples, with their hand-off', async () => {
    await using server = await startPolicyServer((request) => {
      const tools = request.body['tools'] as { function: { name: string; parameters: object } }[]
      const name = tools[0]?.function.name ?? ''
      const handsOff = request.headers['x-sample-id'] === 'first'
      const input = handsOff ? { agentId: 'second', message: 'your turn' } : { message: 'all done' }
      return { toolCalls: [{ id: `of-${handsOff}`, name, arguments: JSON.stringify(input) }] }
    })
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const nodes = ['first', 'second'].map((id) => policyAgent({ name: id, id, description: id }))
      await new Swarm({ nodes, start: 'first', ...bounded }).invoke('go')
    })
    expect(sampleIds(server)).toEqual(['first', 'second'])
    for (const name of ['first', 'second']) {
      const { messages } = await sampleOf(rollout, name)
      expect(kindsOf(messages)).toContain('assistant:toolUse')
    }
  })

  test('may be made inside a tool', async () => {
    await using server = await startPolicyServer([callHelper('one'), 'helped', 'done'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const helper = tool({
        name: 'helper',
        description: 'Helps.',
        inputSchema: z.object({ input: z.string() }),
        callback: async ({ input }) => String(await policyAgent({ name: 'inner' }).invoke(input)),
      })
      await policyAgent({ tools: [helper] }).invoke('go')
    })
    expect(sampleIds(server)).toEqual(['main', 'inner', 'main'])
    expect([...(await rollout.getSamples()).keys()]).toEqual(['main', 'inner'])
    expect(messagesOf(server.requests[2]).at(-1)?.content).toBe('helped')
  })
})

describe('the history', () => {
  const turns = 31

  async function converse(config: Parameters<typeof policyAgent>[0]) {
    await using server = await startPolicyServer((_request, n) => `answer ${n}`)
    const rollout = rolloutOn(server)
    const held = await rollout.run(async () => {
      const agent = policyAgent(config)
      for (let n = 0; n < turns; n += 1) await agent.invoke(`question ${n}`)
      return agent.messages.length
    })
    const sent = server.requests.map((request) => messagesOf(request).length)
    return { held, sent, sample: await sampleOf(rollout) }
  }

  test('is not trimmed, however long it gets', async () => {
    const { held, sent, sample } = await converse({})
    expect(held).toBe(2 * turns)
    expect(sent).toEqual(Array.from({ length: turns }, (_, n) => 2 * n + 1))
    expect(sample.messages).toHaveLength(2 * turns)
    expect(sample.extraFields).toEqual({})
  })

  test('is trimmed by the conversation manager that the user chose, and recorded in full', async () => {
    const conversationManager = new SlidingWindowConversationManager({ windowSize: 4 })
    const { held, sample } = await converse({ conversationManager })
    expect(held).toBe(4)
    expect(sample.messages.at(-1)).toEqual({ role: 'assistant', content: [{ text: 'answer 30' }] })
    const others = sample.extraFields['conversations'] as unknown[][]
    const recorded = JSON.stringify([...others, sample.messages])
    for (let n = 0; n < turns; n += 1) expect(recorded).toContain(`"answer ${n}"`)
    expect(sample.extraFields['history_rewritten']).toBe(true)
  })

  test('is recorded when a plugin of the user replaces it', async () => {
    await using server = await startPolicyServer(['one', 'two'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent()
      await agent.invoke('first')
      agent.messages = []
      await agent.invoke('second')
    })
    const { messages, extraFields } = await sampleOf(rollout)
    expect(lastAssistantText({ messages })).toBe('two')
    expect(extraFields['conversations']).toEqual([
      [
        { role: 'user', content: [{ text: 'first' }] },
        { role: 'assistant', content: [{ text: 'one' }] },
      ],
    ])
  })

  test('contains the turn whose tools are running', async () => {
    await using server = await startPolicyServer([callAdd, 'done'])
    const rollout = rolloutOn(server)
    const seen: string[][] = []
    await rollout.run(async () => {
      const peek = tool({
        name: 'add',
        description: 'Peeks.',
        inputSchema: z.looseObject({}),
        callback: async () => {
          seen.push(kindsOf((await sampleOf(rollout)).messages))
          return 'ok'
        },
      })
      await policyAgent({ tools: [peek] }).invoke('go')
    })
    expect(seen).toEqual([['user:text', 'assistant:toolUse']])
    expect(kindsOf((await sampleOf(rollout)).messages)).toEqual([
      'user:text',
      'assistant:toolUse',
      'user:toolResult',
      'assistant:text',
    ])
  })

  test('is plain JSON without the notes that Strands makes in it', async () => {
    await using server = await startPolicyServer([callAdd, 'done'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent({ tools: [addTool()] })
      agent.addHook(MessageAddedEvent, ({ message }) => {
        message.metadata = { ...message.metadata, custom: { note: 'private' } }
      })
      await agent.invoke('go')
    })
    const { messages } = await sampleOf(rollout)
    expect(messages).toEqual([
      { role: 'user', content: [{ text: 'go' }] },
      {
        role: 'assistant',
        content: [{ toolUse: { toolUseId: 'call-1', name: 'add', input: { a: 1, b: 2 } } }],
      },
      {
        role: 'user',
        content: [
          {
            toolResult: { toolUseId: 'call-1', status: 'success', content: [{ text: 'sum: 3' }] },
          },
        ],
      },
      { role: 'assistant', content: [{ text: 'done' }] },
    ])
    expect(JSON.parse(JSON.stringify(messages))).toEqual(messages)
  })
})
