import { RolloutContext } from '@osmosis/core'
import type { ChatCompletion, ChatCompletionChunk, ChatDelta } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

import { chunk, eventStream, startPolicyEndpoint, usage } from '../../../../test/kit/index.ts'
import { recording as llamaCpp } from '../../../../test/llama-cpp/recording.ts'
import { vllmRecording as vllm } from '../../../../test/vllm/recording.ts'
import { serverHabits } from '../../src/policy/answer/sent/server-habits.ts'

const messages = [{ role: 'user', content: 'hi' }]
const hello = chunk({ role: 'assistant', content: 'hello' })
const stop = chunk({}, 'stop')
const multiply = [
  {
    id: expect.any(String),
    type: 'function',
    function: { name: 'multiply', arguments: '{"a": 6, "b": 8}' },
  },
]
const parsed = { index: 0, id: 'c1', function: { name: 'multiply', arguments: { a: 6, b: 8 } } }

const says = (content: string) => ({ role: 'assistant', content })

/** Per habit: answers of servers that have it, and the message, or the error, that they are. */
const answers: Readonly<Record<string, readonly (readonly [body: string, said: unknown])[]>> = {
  'pings are data': [
    [eventStream({ type: 'ping' }, hello, {}, stop, { type: 'ping' }), says('hello')],
  ],
  'failures are data': [
    [
      eventStream(hello, { object: 'error', message: 'engine died', code: 500 }),
      expect.stringMatching(/engine died/),
    ],
    [
      eventStream({ ...hello, x_groq: { error: 'over capacity' } }),
      expect.stringMatching(/over capacity/),
    ],
    [
      eventStream(hello, { base_resp: { status_code: 1002, status_msg: 'rate limit' } }),
      expect.stringMatching(/rate limit/),
    ],
    [
      eventStream(hello, { modelStreamErrorException: { message: 'gone' } }),
      expect.stringMatching(/gone/),
    ],
  ],
  'data beside the answer': [
    [
      eventStream({ citations: ['x'] }, hello, { timings: { predicted_n: 1 } }, stop),
      says('hello'),
    ],
    [
      JSON.stringify({ citations: ['x'] }),
      expect.stringMatching(/no choices, only {"citations":\["x"\]}/),
    ],
  ],
  'usage without choices': [[eventStream(hello, stop, { usage }), says('hello')]],
  'failures are finish reasons': [
    [eventStream(hello, chunk({}, 'abort')), expect.stringMatching(/broke off .*"abort"/)],
    [
      eventStream(hello, chunk({}, 'insufficient_system_resource')),
      expect.stringMatching(/broke off/),
    ],
  ],
  'whole messages': [
    [llamaCpp.exchanges['a text'].body, says('Multiply 6 by 8')],
    [llamaCpp.exchanges['a tool call'].body, expect.objectContaining({ tool_calls: multiply })],
    [vllm.exchanges['a tool call'].body, expect.objectContaining({ tool_calls: multiply })],
    [
      eventStream(hello, { choices: [{ message: { content: 'hello' }, finish_reason: 'stop' }] }),
      says('hello'),
    ],
  ],
  'calls of the old form': [
    [
      eventStream(chunk({ function_call: { name: 'f', arguments: '{}' } }, 'stop')),
      expect.stringMatching(/function_call/),
    ],
  ],
  'nulls in deltas': [
    [
      llamaCpp.exchanges['a streamed tool call'].body,
      expect.objectContaining({ tool_calls: multiply }),
    ],
    [
      vllm.exchanges['a streamed tool call'].body,
      expect.objectContaining({ content: null, tool_calls: multiply }),
    ],
  ],
  'no role': [[eventStream(chunk({ content: 'hello' }), stop), says('hello')]],
  'parsed arguments': [
    [
      eventStream(chunk({ tool_calls: [parsed] as never }, 'stop')),
      expect.objectContaining({
        tool_calls: [
          expect.objectContaining({ function: { name: 'multiply', arguments: '{"a":6,"b":8}' } }),
        ],
      }),
    ],
  ],
}

it('each habit of servers has an answer here', () => {
  expect(Object.keys(answers)).toEqual(serverHabits.map(({ name }) => name))
})

it.each(Object.entries(answers))('%s: answers are read all the same', async (_habit, cases) => {
  for (const [body, said] of cases) {
    const policy = await startPolicyEndpoint((response) => response.end(body))
    const client = () =>
      new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url }).policy('main')
    const whole = await client().complete({ messages }).then(messageOf, String)
    const stream = client().stream({ messages })
    const deltas: ChatDelta[] = []
    await readInto(deltas, stream).catch(() => undefined)
    const streamed = await stream.completion.then(messageOf, String)
    for (const read of [whole, streamed]) expect(read).toEqual(said)
    // Clients of OpenAI fail over others.
    expect(deltas.slice(0, 1).every(({ role }) => role === 'assistant')).toBe(true)
    expect(JSON.stringify(deltas)).not.toContain(':null')
  }
})

function messageOf({ choices }: ChatCompletion): unknown {
  return choices[0]?.message
}

async function readInto(
  deltas: ChatDelta[],
  stream: AsyncIterable<ChatCompletionChunk>,
): Promise<void> {
  for await (const { choices } of stream)
    for (const { delta } of choices) if (delta) deltas.push(delta)
}
