import { RolloutContext, type PolicyClient } from '@osmosis/core'
import { RolloutBudget } from '@osmosis/core/policy'
import { expect, it, onTestFinished } from 'vitest'

import {
  answerStream,
  chunk,
  eventStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

function client(url: string): PolicyClient {
  return new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url }).policy('main')
}

async function readAll(chunks: AsyncIterable<unknown>): Promise<unknown[]> {
  const read: unknown[] = []
  for await (const part of chunks) read.push(part)
  return read
}

it('gives the whole answer behind its chunks, the same as a call that does not stream', async () => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{ "a": 1.0 }' } }
  const policy = await startPolicyEndpoint((response) =>
    sendStream(response, answerStream({ content: 'text', tool_calls: [call] })),
  )
  const stream = client(policy.url).stream({ messages })
  const chunks = await readAll(stream)
  const completion = await stream.completion

  expect(chunks).toHaveLength(4)
  expect(completion).toMatchObject({
    choices: [{ message: { content: 'text', tool_calls: [call] }, finish_reason: 'tool_calls' }],
    usage,
  })
  expect(completion).toStrictEqual(await client(policy.url).complete({ messages }))
})

it('knows calls by the ids that the chunks have, also those the policy did not give', async () => {
  const policy = await startPolicyEndpoint((response) =>
    sendStream(
      response,
      eventStream(
        chunk(
          { tool_calls: [{ index: 0, function: { name: 'f', arguments: '{}' } }] },
          'tool_calls',
        ),
      ),
    ),
  )
  const stream = client(policy.url).stream({ messages })
  const ids = new Set<unknown>()
  for await (const { choices } of stream) {
    for (const { id } of choices[0]?.delta?.tool_calls ?? []) ids.add(id)
  }
  const { choices } = await stream.completion
  expect([...ids]).toStrictEqual(choices[0]?.message.tool_calls?.map(({ id }) => id))
})

it('has a role at its start, and no nulls, whatever the server names', async () => {
  const nulls = { content: null, refusal: null, tool_calls: null, function_call: null, audio: null }
  const policy = await startPolicyEndpoint((response) =>
    sendStream(
      response,
      eventStream(
        chunk({ ...nulls, reasoning: 'hm' }),
        chunk({ ...nulls, role: null, content: 'hi' }, 'stop'),
        { id: 'answer', usage },
      ),
    ),
  )
  const deltas: unknown[] = []
  for await (const { choices } of client(policy.url).stream({ messages })) {
    deltas.push(...choices.map(({ delta }) => delta))
  }
  expect(deltas).toStrictEqual([{ role: 'assistant', reasoning: 'hm' }, { content: 'hi' }])
})

it('keeps the record apart from what readers do to the answer', async () => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
  const policy = await startPolicyEndpoint((response) =>
    sendStream(response, answerStream({ content: 'said', tool_calls: [call] })),
  )
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
  const { choices } = await rollout.policy('main').complete({ messages })
  const answer = choices[0]?.message ?? { role: 'assistant', content: null }
  const said = structuredClone(answer)
  answer.content = 'changed'
  for (const made of answer.tool_calls ?? []) made.function.arguments = 'changed'

  const result = { role: 'tool', tool_call_id: 'c1', content: '1' }
  await rollout.policy('main').complete({ messages: [...messages, said, result] })
  expect(policy.requests[1]?.body.messages[1]).toStrictEqual(said)
})

it('fails with what reading it throws, whether or not anybody looks', async () => {
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason)
  process.on('unhandledRejection', onUnhandled)
  onTestFinished(() => void process.off('unhandledRejection', onUnhandled))

  const policy = await startPolicyEndpoint((response) => sendJson(response, 400, { detail: 'no' }))
  const looked = client(policy.url).stream({ messages })
  const thrown: unknown = await readAll(looked).catch((error: unknown) => error)
  expect(thrown).toMatchObject({ code: 'policy_http_error' })
  expect(await looked.completion.catch((error: unknown) => error)).toBe(thrown)

  await readAll(client(policy.url).stream({ messages })).catch(() => undefined)
  await readAll(client(policy.url).stream({ messages, n: 2 })).catch(() => undefined)
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
  expect(unhandled).toStrictEqual([])
})

it('is settled when its reader stops: before the finish reason the call has failed', async () => {
  const open = eventStream(chunk({ content: 'half' })).replace('data: [DONE]\n\n', '')
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(open)
  })
  const half = client(policy.url).stream({ messages })
  for await (const { choices } of half) if (choices.length > 0) break
  await expect(half.completion).rejects.toMatchObject({ code: 'policy_stream_error' })

  const unread = client(policy.url).stream({ messages })
  await unread[Symbol.asyncIterator]().return?.()
  await expect(unread.completion).rejects.toThrow('The caller stopped reading.')
  expect(policy.requests).toHaveLength(1)
})

it('is settled when its reader stops: behind the finish reason the answer is known', async () => {
  const finished = eventStream(chunk({ content: 'whole' }, 'stop'))
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(finished.replace('data: [DONE]\n\n', ''))
  })
  const stream = client(policy.url).stream({ messages })
  for await (const { choices } of stream) if (choices[0]?.finish_reason) break
  expect(await stream.completion).toMatchObject({ choices: [{ message: { content: 'whole' } }] })
})

it('is recorded with its usage when its reader stops at the finish reason', async () => {
  const [finished, ending] = [
    eventStream(chunk({ content: 'whole' }, 'stop')),
    { choices: [], usage },
  ]
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(finished.replace('data: [DONE]\n\n', ''), () =>
      response.end(eventStream(ending)),
    )
  })
  const ends: unknown[] = []
  const rollout = new RolloutContext({
    rolloutId: 'r',
    chatCompletionsUrl: policy.url,
    budget: new RolloutBudget({ totalTokens: 100 }, (reason) => void ends.push(reason)),
  })
  const stream = rollout.registerPolicySample('main').stream({ messages })
  for await (const { choices } of stream) if (choices[0]?.finish_reason) break
  expect(await stream.completion).toMatchObject({ usage })
  expect((await rollout.getSamples()).get('main')?.calls).toMatchObject([{ usage, error: null }])
  expect(ends).toEqual([])
  // The connection serves the next call.
  expect(await policy.requests[0]?.closed).toBe(false)
})
