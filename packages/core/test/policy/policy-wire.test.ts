import { RolloutContext, type PolicyWire } from '@osmosis/core'
import type { ChatCompletionChunk } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
  type TestPolicyEndpoint,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

const completion = {
  id: 'chatcmpl-7',
  object: 'chat.completion',
  created: 1,
  model: 'weights-3',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'four' },
      finish_reason: 'stop',
      logprobs: { content: [{ token: 'four', logprob: -0.5 }] },
      token_ids: [4, 5],
    },
  ],
  usage,
  prompt_token_ids: [1, 2, 3],
}

/** Refuses streams, as some gateways of trainers do. */
async function startStreamless(): Promise<TestPolicyEndpoint> {
  return startPolicyEndpoint((response, _n, { body }) =>
    body['stream'] === true || body['stream_options'] !== undefined
      ? sendJson(response, 400, { error: { message: 'streams are not supported' } })
      : sendJson(response, 200, completion),
  )
}

async function startStreaming(): Promise<TestPolicyEndpoint> {
  return startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
}

function contextOf(chatCompletionsUrl: string, wire?: PolicyWire): RolloutContext {
  return new RolloutContext({ rolloutId: 'r', chatCompletionsUrl, wire })
}

describe('a policy that does not stream', () => {
  it('is called for one JSON answer, which is recorded like any other', async () => {
    const policy = await startStreamless()
    const context = contextOf(policy.url, { stream: false })
    context.registerSampleSource('main', {
      getSample: (id) => ({ id, messages: [] }) as never,
    })
    const answer = await context.policy('main').complete({ messages, stream_options: { a: 1 } })
    expect(answer.choices[0]).toMatchObject(completion.choices[0] ?? {})
    expect(policy.requests[0]?.body).toEqual({ messages, model: 'osmosis-rollout', stream: false })
    expect((await context.getSamples()).get('main')?.calls).toMatchObject([
      {
        id: 'chatcmpl-7',
        model: 'weights-3',
        promptTokenIds: [1, 2, 3],
        completionTokenIds: [4, 5],
        logprobs: { content: [{ token: 'four', logprob: -0.5 }] },
        usage,
        attempts: 1,
        error: null,
      },
    ])
  })

  it('still gives chunks to those who want a stream', async () => {
    const policy = await startStreamless()
    const stream = contextOf(policy.url, { stream: false }).policy('main').stream({ messages })
    const chunks: ChatCompletionChunk[] = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks).toMatchObject([
      {
        id: 'chatcmpl-7',
        choices: [{ delta: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }],
        usage,
      },
    ])
    expect((await stream.completion).choices[0]?.message.content).toBe('four')
  })

  it('serves the fetch of SDKs, whichever of the two they ask for', async () => {
    const policy = await startStreamless()
    const { baseUrl, fetch } = contextOf(policy.url, { stream: false }).policy('main')
    const ask = async (stream: boolean): Promise<Response> =>
      fetch(`${baseUrl}/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'theirs', messages, stream }),
      })
    expect(await (await ask(false)).json()).toMatchObject({ choices: completion.choices })
    const streamed = await ask(true)
    expect(streamed.headers.get('content-type')).toBe('text/event-stream')
    expect(await streamed.text()).toMatch(/^data: \{.*"four".*\}\n\ndata: \[DONE\]\n\n$/)
  })

  it('may stream all the same', async () => {
    const policy = await startStreaming()
    const client = contextOf(policy.url, { stream: false }).policy('main')
    expect((await client.complete({ messages })).choices[0]?.message.content).toBe('ok')
  })
})

describe('the wire of a rollout', () => {
  it('names the model that requests give', async () => {
    const policy = await startStreaming()
    await contextOf(policy.url, { model: 'qwen' })
      .policy('main')
      .complete({ messages, model: 'theirs' })
    expect(policy.requests[0]?.body['model']).toBe('qwen')
  })

  it('has settings that win over those of the agent', async () => {
    const policy = await startStreaming()
    const body = { temperature: 0.7, max_tokens: 512, logprobs: true, seed: null }
    await contextOf(policy.url, { body })
      .policy('main')
      .complete({ messages, temperature: 0, max_completion_tokens: 16, seed: 3, stop: ['x'] })
    expect(policy.requests[0]?.body).toEqual({
      ...body,
      stop: ['x'],
      messages,
      model: 'osmosis-rollout',
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  it('cannot change what is said, how many answers there are, or how they come', async () => {
    const policy = await startStreaming()
    const body = {
      messages: [{ role: 'user', content: 'other' }],
      n: 4,
      stream: false,
      stream_options: { include_usage: false },
      model: 'other',
    }
    await contextOf(policy.url, { body }).policy('main').complete({ messages })
    expect(policy.requests[0]?.body).toEqual({
      messages,
      model: 'osmosis-rollout',
      stream: true,
      stream_options: { include_usage: true },
    })
  })
})
