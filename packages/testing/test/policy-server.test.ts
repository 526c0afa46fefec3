import { type Reply, startPolicyServer } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'

import { ask, askForStream } from './ask.ts'

describe('startPolicyServer', () => {
  it('answers one JSON object to a request that does not stream', async () => {
    await using server = await startPolicyServer(['hello'])
    const answer = await ask(server.url, { model: 'm', messages: [] })
    expect(await answer.json()).toStrictEqual({
      id: expect.stringMatching(/^chatcmpl-/) as string,
      object: 'chat.completion',
      created: 0,
      model: 'm',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'hello' },
          finish_reason: 'stop',
          logprobs: null,
        },
      ],
      usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    })
  })

  it('streams to a request that streams, with usage only on request', async () => {
    await using server = await startPolicyServer(['hello', 'hello'])
    const plain = await askForStream(server.url)
    const withUsage = await askForStream(server.url, { stream_options: { include_usage: true } })
    expect(plain.headers.get('content-type')).toBe('text/event-stream')
    expect((await plain.text()).includes('"usage"')).toBe(false)
    expect((await withUsage.text()).includes('"usage"')).toBe(true)
  })

  it('uses the replies of a list in order, and answers with an error after the last', async () => {
    const script: Reply[] = ['one', 'two']
    await using server = await startPolicyServer(script)
    const answers = [await ask(server.url), await ask(server.url), await ask(server.url)]
    expect(answers.map(({ status }) => status)).toStrictEqual([200, 200, 500])
    expect(await answers[2]?.json()).toStrictEqual({
      error: {
        message: 'the script has 2 replies; this is request 3',
        type: 'scripted_error',
        code: 'scripted',
      },
    })
  })

  it('calls a function with the request and its number', async () => {
    await using server = await startPolicyServer(async ({ body }, n) => `${n}:${String(body['q'])}`)
    const contents = []
    for (const q of ['a', 'b']) {
      const { choices } = (await (await ask(server.url, { q })).json()) as Completion
      contents.push(choices[0]?.message.content)
    }
    expect(contents).toStrictEqual(['0:a', '1:b'])
  })

  it('answers 500 with the message of a script that throws', async () => {
    await using server = await startPolicyServer(() => {
      throw new Error('no idea')
    })
    const answer = await ask(server.url)
    expect([answer.status, await answer.text()]).toStrictEqual([
      500,
      '{"error":{"message":"the script threw: no idea","type":"scripted_error","code":"scripted"}}',
    ])
  })

  it('answers 404 on other paths than that of completions, and records the request', async () => {
    await using server = await startPolicyServer(['never'])
    const answer = await fetch(`${server.url}/models`)
    expect([answer.status, server.requests.map(({ path }) => path)]).toStrictEqual([
      404,
      ['/v1/models'],
    ])
  })

  it('records headers, path and body byte for byte', async () => {
    await using server = await startPolicyServer(['ok'])
    const started = performance.now()
    await fetch(`${server.url}/chat/completions?a=1`, {
      method: 'POST',
      headers: { 'x-sample-id': 'main' },
      body: '{"x":  1.0}',
    })
    const request = await server.waitForRequest(0)
    expect(server.requests).toStrictEqual([request])
    expect(request).toMatchObject({
      path: '/v1/chat/completions?a=1',
      rawBody: '{"x":  1.0}',
      body: { x: 1 },
    })
    expect(request.headers['x-sample-id']).toBe('main')
    expect(request.receivedAt).toBeGreaterThanOrEqual(started)
  })

  it('distinguishes a client that disconnected from a complete answer', async () => {
    await using server = await startPolicyServer([
      { answer: 'x', faults: { hang: 'headers' } },
      { answer: 'x', faults: { hang: 'body' } },
      'complete',
      { answer: 'x', faults: { cutAfterBytes: 5 } },
    ])
    const leaving = new AbortController()
    const left = [0, 1].map(async (n) => {
      const answer = askForStream(server.url, { n }, leaving.signal)
      await server.waitForRequest(n)
      return answer
    })
    await server.waitForRequest(1)
    leaving.abort()
    await Promise.allSettled(left)
    await (await askForStream(server.url)).text()
    await expect((await askForStream(server.url)).text()).rejects.toThrow('terminated')
    expect(await Promise.all(server.requests.map(({ closed }) => closed))).toStrictEqual([
      true,
      true,
      false,
      false,
    ])
  })

  it('closes at once with requests hanging, and may be closed again', async () => {
    const server = await startPolicyServer([{ answer: 'x', faults: { hang: 'headers' } }])
    const answer = ask(server.url)
    const request = await server.waitForRequest(0)
    await Promise.all([server.close(), server.close(), expect(answer).rejects.toThrow('fetch')])
    await server.close()
    expect(await request.closed).toBe(false)
  })

  it('listens on the port it is given', async () => {
    const first = await startPolicyServer(['one'])
    const port = Number(new URL(first.url).port)
    await first.close()
    await using second = await startPolicyServer(['two'], { port })
    expect(second.url).toBe(first.url)
  })

  it('serves hundreds of connections at once', { tags: 'slow' }, async () => {
    const everybodyIsHere = Promise.withResolvers<void>()
    await using server = await startPolicyServer(async (_request, n) => {
      if (n === 399) everybodyIsHere.resolve()
      await everybodyIsHere.promise
      return String(n)
    })
    const answers = await Promise.all(Array.from({ length: 400 }, () => ask(server.url)))
    const bodies = await Promise.all(
      answers.map(async (answer) => (await answer.json()) as Completion),
    )
    const contents = bodies.map(({ choices }) => Number(choices[0]?.message.content))
    expect(contents.toSorted((a, b) => a - b)).toStrictEqual([...Array(400).keys()])
  })
})

interface Completion {
  choices: { message: { content: string } }[]
}
