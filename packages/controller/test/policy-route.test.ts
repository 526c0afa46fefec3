import { scriptedPolicy, type PolicyModel, type PolicyRequest } from '@osmosis/controller'
import { describe, expect, it } from 'vitest'

import { announce } from './announced-request.ts'
import { callPolicy } from './fake-rollout-server.ts'
import { startRollout } from './running-rollout.ts'

const usage = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }

describe('the policy endpoint', () => {
  it('hands over what the caller sent, without the key', async () => {
    const calls: PolicyRequest[] = []
    await using rollout = await startRollout(
      policyOf(async (call) => {
        calls.push(call)
        return Response.json({})
      }),
      { rolloutId: 'r' },
    )
    const headers = { 'X-Sample-Id': 'main', 'x-trace': '7' }
    await callPolicy(rollout.order, { messages: [], seed: 3, nested: { a: [1] } }, { headers })
    await callPolicy(rollout.order, {})
    expect(
      calls.map(({ rolloutId, sampleId, body }) => ({ rolloutId, sampleId, body })),
    ).toStrictEqual([
      { rolloutId: 'r', sampleId: 'main', body: { messages: [], seed: 3, nested: { a: [1] } } },
      { rolloutId: 'r', sampleId: '', body: {} },
    ])
    expect([calls[0]?.headers['x-trace'], calls[0]?.headers['authorization']]).toStrictEqual([
      '7',
      undefined,
    ])
  })

  it('passes status, content type, Retry-After and bytes on', async () => {
    await using rollout = await startRollout(
      policyOf(
        async () =>
          new Response('slow\r\n\u0000down', {
            status: 429,
            headers: { 'content-type': 'text/x-odd', 'retry-after': '3', 'x-own': 'held back' },
          }),
      ),
    )
    const answer = await callPolicy(rollout.order)
    expect([answer.status, await answer.text(), answer.headers.get('x-own')]).toStrictEqual([
      429,
      'slow\r\n\u0000down',
      null,
    ])
    expect([answer.headers.get('content-type'), answer.headers.get('retry-after')]).toStrictEqual([
      'text/x-odd',
      '3',
    ])
  })

  it('sends the headers and every piece of an answer when they are there', async () => {
    const pieces = new TransformStream<Uint8Array, Uint8Array>()
    const writer = pieces.writable.getWriter()
    await using rollout = await startRollout(
      policyOf(async () => new Response(pieces.readable, { headers: eventStream })),
    )
    const answer = await callPolicy(rollout.order)
    const reader = answer.body?.getReader()
    for (const text of ['data: 1\n\n', ': half of an', ' event']) {
      await writer.write(new TextEncoder().encode(text))
      const read = await reader?.read()
      expect(new TextDecoder().decode(read?.value as Uint8Array)).toBe(text)
    }
    await writer.close()
    expect((await reader?.read())?.done).toBe(true)
  })

  it('breaks the connection when an answer breaks off', async () => {
    await using rollout = await startRollout(
      policyOf(
        async () =>
          new Response(
            ReadableStream.from(
              (async function* () {
                yield new TextEncoder().encode('data: 1\n\n')
                throw new Error('upstream gone')
              })(),
            ),
            { headers: eventStream },
          ),
      ),
    )
    await expect((await callPolicy(rollout.order)).text()).rejects.toThrow('terminated')
  })

  it('answers 500 in OpenAI form for a policy that throws', async () => {
    await using rollout = await startRollout(
      policyOf(async () => {
        throw new Error('no weights')
      }),
    )
    expect(await refusal(await callPolicy(rollout.order))).toStrictEqual([
      500,
      {
        error: {
          message: 'The policy test failed: no weights',
          type: 'server_error',
          code: 'policy_failed',
        },
      },
    ])
  })

  it('aborts the policy when the caller disconnects', async () => {
    const called = Promise.withResolvers<AbortSignal>()
    await using rollout = await startRollout(policyOf(hangingAfter(called)))
    const leave = new AbortController()
    const answer = callPolicy(rollout.order, {}, { signal: leave.signal })
    const signal = await called.promise
    expect(signal.aborted).toBe(false)
    leave.abort()
    await expect(answer).rejects.toThrow('aborted')
    await aborted(signal)
  })

  it('closes an answer in progress when the caller disconnects', async () => {
    const cancelled = Promise.withResolvers<string>()
    await using rollout = await startRollout(
      policyOf(
        async () =>
          new Response(
            new ReadableStream<Uint8Array>({
              start: (controller) => controller.enqueue(new TextEncoder().encode('data: 1\n\n')),
              cancel: () => cancelled.resolve('cancelled'),
            }),
            { headers: eventStream },
          ),
      ),
    )
    const leave = new AbortController()
    const answer = await callPolicy(rollout.order, {}, { signal: leave.signal })
    await answer.body?.getReader().read()
    leave.abort()
    expect(await cancelled.promise).toBe('cancelled')
  })

  it('aborts model calls that wait for an answer when the rollout ends', async () => {
    const called = Promise.withResolvers<AbortSignal>()
    await using rollout = await startRollout(policyOf(hangingAfter(called)))
    const answer = callPolicy(rollout.order)
    const signal = await called.promise
    await rollout.end()
    expect([(await answer).status, signal.aborted]).toStrictEqual([410, true])
  })

  it('does not wait for a policy that ignores its signal', async () => {
    const called = Promise.withResolvers<void>()
    await using rollout = await startRollout(
      policyOf(() => {
        called.resolve()
        return new Promise(() => {})
      }),
    )
    const answer = callPolicy(rollout.order)
    await called.promise
    await rollout.end()
    expect((await answer).status).toBe(410)
  })

  it('breaks answers off that are in progress when the rollout ends', async () => {
    const open = new TransformStream<Uint8Array, Uint8Array>()
    await using rollout = await startRollout(
      policyOf(async () => new Response(open.readable, { headers: eventStream })),
    )
    const answer = await callPolicy(rollout.order)
    await rollout.end()
    await expect(answer.text()).rejects.toThrow('terminated')
  })
})

describe('the policy endpoint refuses', () => {
  const policy = policyOf(async () => Response.json({}))

  it.each([
    ['a wrong key', 'Bearer wrong'],
    ['the callback token', 'Bearer $callback'],
    ['another scheme', 'Basic $policy'],
  ])('%s, also for an unknown rollout', async (_what, authorization) => {
    await using rollout = await startRollout(policy)
    const { callbackToken, policyToken } = rollout.controller
    const headers = {
      authorization: authorization
        .replace('$callback', callbackToken)
        .replace('$policy', policyToken),
    }
    const unknown = `${rollout.controller.url}/v1/rollouts/stranger`
    const expected = [
      401,
      {
        error: {
          message: 'The bearer key is missing or wrong.',
          type: 'invalid_request_error',
          code: 'invalid_api_key',
        },
      },
    ]
    for (const order of [rollout.order, { ...rollout.order, chat_completions_url: unknown }]) {
      expect(await refusal(await callPolicy(order, {}, { headers }))).toStrictEqual(expected)
    }
  })

  it('an unknown rollout', async () => {
    await using rollout = await startRollout(policy)
    const unknown = `${rollout.controller.url}/v1/rollouts/stranger`
    const answer = await callPolicy({ ...rollout.order, chat_completions_url: unknown })
    expect(await refusal(answer)).toStrictEqual([
      404,
      {
        error: {
          message: 'The rollout "stranger" is unknown.',
          type: 'invalid_request_error',
          code: 'rollout_not_found',
        },
      },
    ])
  })

  it('a rollout that has ended', async () => {
    await using rollout = await startRollout(policy, { rolloutId: 'r' })
    await rollout.end()
    expect(await refusal(await callPolicy(rollout.order))).toStrictEqual([
      410,
      {
        error: {
          message: 'The rollout "r" has ended: its model calls are refused.',
          type: 'invalid_request_error',
          code: 'rollout_ended',
        },
      },
    ])
  })

  it.each(['', '{"messages"', 'null', '[]', '"text"', '7'])('the body %j', async (body) => {
    await using rollout = await startRollout(policy)
    expect(await refusal(await callPolicy(rollout.order, body === '' ? ' ' : body))).toStrictEqual([
      400,
      {
        error: {
          message: 'The request body must be a JSON object.',
          type: 'invalid_request_error',
          code: 'invalid_body',
        },
      },
    ])
    expect((await rollout.end()).policyCalls).toBe(0)
  })
})

describe('the policy endpoint refuses a body', () => {
  it('that is not UTF-8', async () => {
    await using rollout = await startRollout(scriptedPolicy(() => 'ok'))
    const url = `${rollout.order.chat_completions_url}/chat/completions`
    const headers = { authorization: `Bearer ${rollout.order.llm_api_key}` }
    const body = Buffer.from('{"messages":["\xff"]}', 'latin1')
    expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(422)
    expect((await rollout.end()).policyCalls).toBe(0)
  })

  it('of more than 256 MiB', async () => {
    await using rollout = await startRollout(scriptedPolicy(() => 'ok'))
    const url = `${rollout.order.chat_completions_url}/chat/completions`
    const length = 256 * 1024 * 1024 + 1
    expect(await announce(url, rollout.order.llm_api_key, length)).toBe(413)
    expect((await rollout.end()).policyCalls).toBe(0)
  })
})

describe('the tokens of a rollout', () => {
  it('are those of its JSON answers, added up', async () => {
    await using rollout = await startRollout(policyOf(async () => Response.json({ usage })))
    for (let n = 0; n < 3; n += 1) await (await callPolicy(rollout.order)).text()
    const result = await rollout.end()
    expect([result.policyCalls, result.usage]).toStrictEqual([
      3,
      { promptTokens: 30, completionTokens: 9, totalTokens: 39 },
    ])
  })

  it.each([
    ['in its last chunk', `data: {"choices":[],"usage":${JSON.stringify(usage)}}\n\n`],
    ['with CRLF and no space', `data:{"usage":${JSON.stringify(usage)}}\r\n\r\n`],
    [
      'growing in every chunk',
      `data: {"usage":{"prompt_tokens":10,"completion_tokens":1}}\n\ndata: {"usage":null}\n\ndata: {"usage":${JSON.stringify(usage)}}\n\n`,
    ],
    ['without a total', 'data: {"usage":{"prompt_tokens":10,"completion_tokens":3}}\n\n'],
  ])('are read from a stream that has them %s, however it is cut', async (_how, text) => {
    const stream = `: ping\n\ndata: {"choices":[{"delta":{"content":"é"}}]}\n\n${text}data: [DONE]\n\n`
    await using rollout = await startRollout(
      policyOf(
        async () =>
          new Response(
            ReadableStream.from([...Buffer.from(stream)].map((byte) => Uint8Array.of(byte))),
            { headers: eventStream },
          ),
      ),
    )
    expect(await (await callPolicy(rollout.order)).text()).toBe(stream)
    expect((await rollout.end()).usage).toStrictEqual({
      promptTokens: 10,
      completionTokens: 3,
      totalTokens: 13,
    })
  })

  it('are counted when the caller is done with a stream that is still open', async () => {
    const open = new TransformStream<Uint8Array, Uint8Array>()
    const writer = open.writable.getWriter()
    await using rollout = await startRollout(
      policyOf(async () => new Response(open.readable, { headers: eventStream })),
    )
    const answer = await callPolicy(rollout.order)
    await writer.write(new TextEncoder().encode(`data: {"usage":${JSON.stringify(usage)}}\n\n`))
    await answer.body?.getReader().read()
    expect((await rollout.end()).usage.totalTokens).toBe(13)
  })

  it.each([
    ['not JSON', 'usage?'],
    ['an error', '{"error":{"message":"no"}}'],
    ['odd usage', '{"usage":{"prompt_tokens":"many","completion_tokens":-1}}'],
    ['empty', ''],
  ])('stay at zero for an answer that is %s', async (_what, body) => {
    await using rollout = await startRollout(policyOf(async () => new Response(body)))
    expect(await (await callPolicy(rollout.order)).text()).toBe(body)
    const result = await rollout.end()
    expect([result.policyCalls, result.usage]).toStrictEqual([
      1,
      { promptTokens: 0, completionTokens: 0, totalTokens: 0 },
    ])
  })
})

const eventStream = { 'content-type': 'text/event-stream' }

function policyOf(respond: PolicyModel['respond']): PolicyModel {
  return { name: 'test', respond }
}

function hangingAfter(called: PromiseWithResolvers<AbortSignal>): PolicyModel['respond'] {
  return ({ signal }) => {
    called.resolve(signal)
    return new Promise((_resolve, reject) =>
      signal.addEventListener('abort', () => reject(new Error('aborted'))),
    )
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
}

async function refusal(answer: Response): Promise<[number, unknown]> {
  return [answer.status, await answer.json()]
}
